//! The flags, and what they mean for gossipsub.

use std::{error::Error, time::Duration};

use libp2p::{
    gossipsub::{self, ConfigBuilder, MessageAuthenticity, MessageId, ValidationMode, Version},
    identity::Keypair,
};

use crate::ids;

/// Bytes: that of an RPC in the gossipsub specification and in go; this library's default is 64 KiB.
const MAX_TRANSMIT: usize = 1 << 20;
/// Peers named in a PRUNE with `--px`: the specification's number; this library's default is none.
const PX_PEERS: usize = 16;

/// Parsed command line.
#[derive(Default)]
pub struct Args {
    pub listen: Vec<String>,
    pub dials: Vec<String>,
    pub topics: Vec<String>,
    pub key_seed: Option<String>,
    no_sign: bool,
    anonymous: bool,
    ids: Option<ids::Function>,
    protocol: Option<String>,
    mesh: Option<String>,
    heartbeat: Option<u64>,
    px: bool,
    library_ids: bool,
}

impl Args {
    /// Reads `--flag=value` or `--flag value`, and switches.
    pub fn parse(words: impl Iterator<Item = String>) -> Result<Self, Box<dyn Error>> {
        let words: Vec<String> = words.collect();
        let mut words = words
            .iter()
            .flat_map(|word| word.splitn(2, '='))
            .map(String::from);
        let mut args = Self::default();
        while let Some(flag) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{flag} needs a value"));
            match flag.as_str() {
                "--listen" => args.listen.push(value()?),
                "--dial" => args.dials.push(value()?),
                "--topic" => args.topics.push(value()?),
                "--protocol" => args.protocol = Some(value()?),
                "--key-seed" => args.key_seed = Some(value()?),
                "--mesh" => args.mesh = Some(value()?),
                "--heartbeat" => args.heartbeat = Some(value()?.parse()?),
                "--policy" => {
                    args.anonymous = match value()?.as_str() {
                        "StrictSign" => false,
                        "StrictNoSign" => true,
                        other => return Err(format!("there is no policy {other}").into()),
                    }
                }
                "--ids" => args.ids = Some(ids::of_content(&value()?)?),
                "--px" => args.px = true,
                "--no-sign" => args.no_sign = true,
                "--library-ids" => args.library_ids = true,
                _ => return Err(format!("there is no flag {flag}").into()),
            }
        }
        if args.listen.is_empty() {
            args.listen.push("/ip4/127.0.0.1/tcp/0".into());
        }
        Ok(args)
    }

    /// The message ids that deliveries name.
    pub fn id(&self) -> ids::Function {
        self.ids.unwrap_or(ids::of_author)
    }

    /// What the messages that this peer publishes carry of their author.
    pub fn authenticity(&self, key: &Keypair) -> MessageAuthenticity {
        if self.anonymous {
            MessageAuthenticity::Anonymous
        } else if self.no_sign {
            MessageAuthenticity::Author(key.public().to_peer_id())
        } else {
            MessageAuthenticity::Signed(key.clone())
        }
    }

    /// The gossipsub configuration that the flags ask for.
    pub fn gossipsub(&self) -> Result<gossipsub::Config, Box<dyn Error>> {
        let mut config = ConfigBuilder::default();
        config
            .max_transmit_size(MAX_TRANSMIT)
            .heartbeat_interval(Duration::from_millis(self.heartbeat.unwrap_or(1000)))
            .validation_mode(if self.anonymous {
                ValidationMode::Anonymous
            } else if self.no_sign {
                ValidationMode::Permissive
            } else {
                ValidationMode::Strict
            });
        if !self.library_ids {
            let id = self.id();
            config.message_id_fn(move |message| MessageId::new(&id(message)));
        }
        if self.px {
            config.do_px().prune_peers(PX_PEERS);
        }
        match self.protocol.as_deref() {
            None => {}
            Some(id @ "/meshsub/1.0.0") => drop(config.protocol_id(id.to_owned(), Version::V1_0)),
            Some(id @ "/meshsub/1.1.0") => drop(config.protocol_id(id.to_owned(), Version::V1_1)),
            // The library has no switch for them alone: it offers them before the others.
            Some(id) => return Err(format!("this peer can't speak {id} alone").into()),
        }
        let mesh = self.mesh.as_deref().unwrap_or("4,6,12");
        let sizes = mesh
            .split(',')
            .map(str::parse)
            .collect::<Result<Vec<usize>, _>>()?;
        let [low, degree, high] = sizes[..] else {
            return Err(format!("--mesh takes LOW,D,HIGH, not {mesh}").into());
        };
        config
            .mesh_n_low(low)
            .mesh_n(degree)
            .mesh_n_high(high)
            .mesh_outbound_min(low.min(degree / 2).min(2));
        Ok(config.build()?)
    }
}
