//! Functions for message ids.

use libp2p::gossipsub::Message;
use sha2::{Digest, Sha256};

pub type Function = fn(&Message) -> Vec<u8>;

/// Bytes of an id of Ethereum's.
const ETHEREUM_ID: usize = 20;

/// That of the gossipsub specification; the library's own is text.
pub fn of_author(message: &Message) -> Vec<u8> {
    let mut id = message
        .source
        .map(|peer| peer.to_bytes())
        .unwrap_or_default();
    id.extend(message.sequence_number.unwrap_or_default().to_be_bytes());
    id
}

/// A function of the content alone, by its name.
pub fn of_content(name: &str) -> Result<Function, String> {
    match name {
        "data" => Ok(|message| Sha256::digest(&message.data).to_vec()),
        "ethereum" => Ok(ethereum),
        _ => Err(format!("there is no function {name} for message ids")),
    }
}

/// Altair's function for data that isn't Snappy's: the domain MESSAGE_DOMAIN_INVALID_SNAPPY, the topic
/// with its length, and the data.
fn ethereum(message: &Message) -> Vec<u8> {
    let topic = message.topic.as_str().as_bytes();
    let digest = Sha256::new()
        .chain_update([0; 4])
        .chain_update((topic.len() as u64).to_le_bytes())
        .chain_update(topic)
        .chain_update(&message.data)
        .finalize();
    digest[..ETHEREUM_ID].to_vec()
}
