//! The commands that come as lines of JSON.

use std::error::Error;

use base64::{Engine, prelude::BASE64_STANDARD};
use libp2p::{Multiaddr, gossipsub::IdentTopic, swarm::Swarm};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::{
    Behaviour,
    output::{digest, emit},
};

/// Carries out one command; what fails is reported.
pub fn obey(swarm: &mut Swarm<Behaviour>, line: &str) {
    let command: Value = serde_json::from_str(line).unwrap_or_default();
    if let Err(error) = carry_out(swarm, &command) {
        emit(json!({"event": "failed", "op": command["op"], "error": error.to_string()}));
    }
}

fn carry_out(swarm: &mut Swarm<Behaviour>, command: &Value) -> Result<(), Box<dyn Error>> {
    let text = |name: &str| {
        command[name]
            .as_str()
            .ok_or_else(|| format!("the command has no text {name:?}"))
    };
    let gossipsub = &mut swarm.behaviour_mut().gossipsub;
    match text("op")? {
        "publish" => {
            let data = match command["data"].as_str() {
                Some(data) => BASE64_STANDARD.decode(data)?,
                None => payload(command["size"].as_u64().ok_or("no size")?, text("seed")?),
            };
            let mut event = digest(&data);
            gossipsub.publish(IdentTopic::new(text("topic")?), data)?;
            event["event"] = json!("published");
            event["topic"] = command["topic"].clone();
            emit(event);
        }
        "subscribe" => {
            gossipsub.subscribe(&IdentTopic::new(text("topic")?))?;
            emit(json!({"event": "subscribed", "topic": command["topic"]}));
        }
        "unsubscribe" => {
            gossipsub.unsubscribe(&IdentTopic::new(text("topic")?));
            emit(json!({"event": "unsubscribed", "topic": command["topic"]}));
        }
        "dial" => swarm.dial(text("addr")?.parse::<Multiaddr>()?)?,
        op => return Err(format!("no command is called {op:?}").into()),
    }
    Ok(())
}

/// SHA-256 of "seed/0", "seed/1", ..., cut to `size` bytes.
fn payload(size: u64, seed: &str) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..size.div_ceil(32))
        .flat_map(|i| Sha256::digest(format!("{seed}/{i}")))
        .collect();
    bytes.truncate(size as usize);
    bytes
}
