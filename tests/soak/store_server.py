"""The S3 server of the soak in a process of its own, behind a proxy that spoils requests: prints its options.

The first line has those of the server itself, the second those of the proxy. It ends when its input ends.
"""

from __future__ import annotations

import json
import sys

from support.object_stores import running_cloud
from support.unreliable_s3 import running_proxy

PATIENCE = {"timeout": "2s", "client_max_retries": "6", "client_retry_timeout": "30"}


def main(rate: str, seed: str) -> None:
    with running_cloud() as cloud, running_proxy(cloud.endpoint) as proxy:
        direct = {name: value for name, value in cloud.storage_options.items() if "dynamodb" not in name}
        print(json.dumps(direct), flush=True)
        print(json.dumps({**direct, "aws_endpoint": proxy.endpoint, **PATIENCE}), flush=True)
        proxy.misbehave(float(rate), int(seed))
        sys.stdin.read()
        print(json.dumps({"requests": sum(proxy.requests.values()), "faults": sum(proxy.faults.values())}))


if __name__ == "__main__":
    main(*sys.argv[1:])
