//! Entries in a DynamoDB table, as the reference keeps them (table format 13.2).
//!
//! | attribute | type | holds |
//! |---|---|---|
//! | `base_uri` | S, hash key | path of the table's root in its bucket |
//! | `version` | N, range key | the version |
//! | `path` | S | staged or final path of the manifest |
//! | `committer` | S | who wrote it |
//! | `size` | N | bytes of the manifest |
//! | `e_tag` | S | of the manifest, if there is one |
//!
//! Requests go through `object_store`'s HTTP client, signed with the credentials it finds for the bucket. Endpoint:
//! storage option `dynamodb_endpoint`, else the environment's `DYNAMODB_ENDPOINT`, else AWS.

use std::time::Duration;

use async_trait::async_trait;
use http::Method;
use object_store::ClientOptions;
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey, AwsAuthorizer};
use object_store::client::{HttpClient, HttpConnector, HttpRequestBody, ReqwestConnector};
use pennon_core::{Error, Result, Version};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use super::{Entry, ManifestStore};
use crate::runtime;
use crate::store::options::DYNAMODB_ENDPOINT;
use crate::store::secrets::check_endpoint;
use crate::store::{StorageOptions, options};

const COMMITTER: &str = "pennon";
/// Attempts of a request that was throttled or not answered.
const ATTEMPTS: u32 = 6;
const FIRST_WAIT: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(super) struct DynamoDb {
    name: String,
    endpoint: String,
    region: String,
    /// Finds and renews credentials.
    bucket: AmazonS3,
    client: HttpClient,
    /// Set when the key schema was found to be right.
    checked: OnceCell<()>,
}

/// What became of a request.
enum Answer {
    Done(Value),
    /// The condition of a put does not hold.
    Refused,
}

impl DynamoDb {
    pub(super) fn new(root: &str, name: String, options: &StorageOptions) -> Result<Self> {
        let options = options::with_environment(options);
        let invalid = |e: object_store::Error| Error::invalid_input(format!("{root}: {e}"));
        let known: Vec<(AmazonS3ConfigKey, String)> =
            options.iter().filter_map(|(key, value)| Some((key.parse().ok()?, value.clone()))).collect();
        let of_client = known.iter().filter_map(|(key, value)| match key {
            AmazonS3ConfigKey::Client(key) => Some((*key, value.clone())),
            _ => None,
        });
        let http = of_client.fold(ClientOptions::new(), |http, (key, value)| http.with_config(key, value));
        let builder =
            known.into_iter().fold(AmazonS3Builder::new().with_url(root), |builder, (key, value)| {
                builder.with_config(key, value)
            });
        let region =
            builder.get_config_value(&AmazonS3ConfigKey::Region).unwrap_or_else(|| "us-east-1".to_owned());
        let endpoint = options.get(DYNAMODB_ENDPOINT).cloned();
        let endpoint = endpoint.unwrap_or_else(|| format!("https://dynamodb.{region}.amazonaws.com"));
        check_endpoint(DYNAMODB_ENDPOINT, &endpoint)?;
        let http = if endpoint.starts_with("http://") { http.with_allow_http(true) } else { http };
        let client = ReqwestConnector::default().connect(&http).map_err(invalid)?;
        let bucket = builder.build().map_err(invalid)?;
        Ok(Self { name, endpoint, region, bucket, client, checked: OnceCell::new() })
    }

    /// The key schema must be the reference's, or its writers and ours would not see each other's versions.
    async fn check(&self) -> Result<()> {
        let check = || async {
            let described =
                self.done(self.request("DescribeTable", &json!({"TableName": self.name})).await?)?;
            let keys = described.pointer("/Table/KeySchema").and_then(Value::as_array);
            let key = |kind: &str| {
                keys.into_iter()
                    .flatten()
                    .find(|k| text(k, "KeyType") == Some(kind))
                    .and_then(|k| text(k, "AttributeName"))
            };
            let found = (key("HASH"), key("RANGE"));
            if found == (Some("base_uri"), Some("version")) {
                return Ok(());
            }
            Err(Error::invalid_input(format!(
                "DynamoDB table {}: found hash key {:?} and range key {:?}, expected \"base_uri\" and \"version\"",
                self.name, found.0, found.1
            )))
        };
        self.checked.get_or_try_init(check).await.copied()
    }

    async fn call(&self, operation: &str, mut body: Value) -> Result<Answer> {
        self.check().await?;
        if let Some(fields) = body.as_object_mut() {
            fields.insert("TableName".to_owned(), json!(self.name));
        }
        self.request(operation, &body).await
    }

    fn done(&self, answer: Answer) -> Result<Value> {
        match answer {
            Answer::Done(value) => Ok(value),
            Answer::Refused => {
                Err(Error::store(format!("DynamoDB table {}: there is no such entry", self.name)))
            }
        }
    }

    /// Sends until there is an answer. A put that is sent again may meet what its first sending wrote: the caller
    /// compares paths.
    async fn request(&self, operation: &str, body: &Value) -> Result<Answer> {
        let failed = |why: String| Error::store(format!("DynamoDB table {}, {operation}: {why}", self.name));
        let mut wait = FIRST_WAIT;
        let mut attempt = 1;
        loop {
            let why = match self.send(operation, body).await {
                Ok((200, answer)) => return Ok(Answer::Done(answer)),
                Ok((status, answer)) => {
                    let kind =
                        text(&answer, "__type").unwrap_or_default().rsplit('#').next().unwrap_or_default();
                    if kind == "ConditionalCheckFailedException" {
                        return Ok(Answer::Refused);
                    }
                    let message = text(&answer, "message").or(text(&answer, "Message")).unwrap_or_default();
                    let why = format!("{status} {kind} {message}");
                    let throttled = ["Throttling", "ThroughputExceeded", "RequestLimitExceeded"]
                        .iter()
                        .any(|sign| kind.contains(sign));
                    if status < 500 && !throttled {
                        return Err(failed(why));
                    }
                    why
                }
                Err(why) => why,
            };
            if attempt == ATTEMPTS {
                return Err(failed(why));
            }
            attempt += 1;
            // Half of it to all of it, so that clients do not come back together.
            let part = f64::from(500 + runtime::random_below(500)) / 1000.0;
            runtime::sleep(wait.mul_f64(part)).await;
            wait *= 2;
        }
    }

    async fn send(&self, operation: &str, body: &Value) -> std::result::Result<(u16, Value), String> {
        let body = serde_json::to_vec(body).map_err(|e| e.to_string())?;
        let mut request = http::Request::builder()
            .method(Method::POST)
            .uri(&self.endpoint)
            .header("content-type", "application/x-amz-json-1.0")
            .header("x-amz-target", format!("DynamoDB_20120810.{operation}"))
            .body(HttpRequestBody::from(body))
            .map_err(|e| e.to_string())?;
        let credential = self.bucket.credentials().get_credential().await.map_err(|e| e.to_string())?;
        AwsAuthorizer::new(&credential, "dynamodb", &self.region).authorize(&mut request, None);
        let answer = self.client.execute(request).await.map_err(|e| e.to_string())?;
        let status = answer.status().as_u16();
        let bytes = answer.into_body().bytes().await.map_err(|e| e.to_string())?;
        // An answer that is not JSON was made by a proxy.
        Ok((status, serde_json::from_slice(&bytes).unwrap_or(Value::Null)))
    }

    fn decode(&self, item: &Value) -> Result<Entry> {
        let wrong = |what: &str| {
            Error::corrupt(format!("DynamoDB table {}: an entry has no {what}: {item}", self.name))
        };
        let number = |key: &str| item.pointer(&format!("/{key}/N")).and_then(Value::as_str)?.parse().ok();
        let string =
            |key: &str| item.pointer(&format!("/{key}/S")).and_then(Value::as_str).map(str::to_owned);
        Ok(Entry {
            version: Version(number("version").ok_or_else(|| wrong("version"))?),
            path: string("path").ok_or_else(|| wrong("path"))?,
            size: number("size"),
            e_tag: string("e_tag"),
        })
    }

    async fn put(&self, table: &str, entry: &Entry, condition: &str) -> Result<Answer> {
        let mut item = key(table, entry.version);
        if let Some(fields) = item.as_object_mut() {
            fields.insert("path".to_owned(), json!({"S": entry.path}));
            fields.insert("committer".to_owned(), json!({"S": COMMITTER}));
            if let Some(size) = entry.size {
                fields.insert("size".to_owned(), json!({"N": size.to_string()}));
            }
            if let Some(e_tag) = &entry.e_tag {
                fields.insert("e_tag".to_owned(), json!({"S": e_tag}));
            }
        }
        let condition = format!("{condition}(base_uri) AND {condition}(version)");
        self.call("PutItem", json!({"Item": item, "ConditionExpression": condition})).await
    }
}

#[async_trait]
impl ManifestStore for DynamoDb {
    async fn latest(&self, table: &str) -> Result<Option<Entry>> {
        let query = json!({
            "KeyConditionExpression": "base_uri = :table",
            "ExpressionAttributeValues": {":table": {"S": table}},
            "ScanIndexForward": false,
            "Limit": 1,
            "ConsistentRead": true,
        });
        let found = self.done(self.call("Query", query).await?)?;
        found.pointer("/Items/0").map(|item| self.decode(item)).transpose()
    }

    async fn get(&self, table: &str, version: Version) -> Result<Option<Entry>> {
        let query = json!({"Key": key(table, version), "ConsistentRead": true});
        let found = self.done(self.call("GetItem", query).await?)?;
        found.get("Item").map(|item| self.decode(item)).transpose()
    }

    async fn put_if_absent(&self, table: &str, entry: &Entry) -> Result<bool> {
        Ok(matches!(self.put(table, entry, "attribute_not_exists").await?, Answer::Done(_)))
    }

    async fn put_if_exists(&self, table: &str, entry: &Entry) -> Result<()> {
        let answer = self.put(table, entry, "attribute_exists").await?;
        self.done(answer).map(drop)
    }

    async fn remove(&self, table: &str, version: Version) -> Result<()> {
        self.call("DeleteItem", json!({"Key": key(table, version)})).await.map(drop)
    }

    async fn forget(&self, table: &str) -> Result<()> {
        while let Some(entry) = self.latest(table).await? {
            self.remove(table, entry.version).await?;
        }
        Ok(())
    }
}

fn key(table: &str, version: Version) -> Value {
    json!({"base_uri": {"S": table}, "version": {"N": version.0.to_string()}})
}

fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key).and_then(Value::as_str)
}
