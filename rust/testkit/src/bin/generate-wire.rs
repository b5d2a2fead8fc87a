//! Regenerates the checked-in wire code: `cargo run -p pennon-testkit --bin generate-wire`.

use std::error::Error;

use pennon_testkit::wire_code;

fn main() -> Result<(), Box<dyn Error>> {
    let (protos, out) = wire_code::workspace_paths();
    for name in wire_code::generate(&protos, &out)? {
        println!("{}", out.join(name).display());
    }
    Ok(())
}
