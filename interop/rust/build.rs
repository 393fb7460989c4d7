//! Takes the versions that the peer tells from the lock file and the compiler.

use std::{env, fs, path::Path, process::Command};

fn main() {
    let lock = Path::new(&env::var("CARGO_MANIFEST_DIR").unwrap()).join("Cargo.lock");
    println!("cargo:rerun-if-changed={}", lock.display());
    let lock = fs::read_to_string(lock).unwrap();
    for (variable, package) in [
        ("LIBP2P_VERSION", "libp2p"),
        ("GOSSIPSUB_VERSION", "libp2p-gossipsub"),
    ] {
        let start = format!("name = \"{package}\"\nversion = \"");
        let version = lock
            .split_once(&start)
            .unwrap()
            .1
            .split('"')
            .next()
            .unwrap();
        println!("cargo:rustc-env={variable}={version}");
    }
    // "rustc 1.95.0 (...)"
    let rustc = Command::new(env::var("RUSTC").unwrap())
        .arg("--version")
        .output()
        .unwrap();
    let printed = String::from_utf8(rustc.stdout).unwrap();
    let version = printed.split_whitespace().nth(1).unwrap();
    println!("cargo:rustc-env=RUSTC_VERSION={version}");
}
