//! Tells changes of what gossipsub has no events for.

use std::collections::BTreeMap;

use libp2p::gossipsub::Behaviour;
use serde_json::json;

use crate::output::emit;

/// What was reported last.
#[derive(Default)]
pub struct Watch {
    protocols: BTreeMap<String, String>,
    meshes: BTreeMap<String, Vec<String>>,
}

impl Watch {
    pub fn tell_changes(&mut self, gossipsub: &Behaviour) {
        let mut protocols = BTreeMap::new();
        for (peer, kind) in gossipsub.peer_protocol() {
            // "Floodsub" is said of a peer whose stream is still being negotiated.
            let Some(version) = kind.as_static_ref().strip_prefix("Gossipsub v") else {
                continue;
            };
            let protocol = format!("/meshsub/{version}.0");
            let peer = peer.to_string();
            if self.protocols.get(&peer) != Some(&protocol) {
                emit(json!({"event": "protocol", "peer": peer, "protocol": protocol}));
            }
            protocols.insert(peer, protocol);
        }
        self.protocols = protocols;
        for topic in gossipsub.topics() {
            let mut peers: Vec<_> = gossipsub.mesh_peers(topic).map(|p| p.to_string()).collect();
            peers.sort();
            let before = self.meshes.entry(topic.to_string()).or_default();
            if *before != peers {
                emit(json!({"event": "mesh", "topic": topic.to_string(), "peers": &peers}));
                *before = peers;
            }
        }
    }
}
