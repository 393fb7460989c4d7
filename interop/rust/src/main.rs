//! The interop peer of rust-libp2p. interop/README.md has the flags, commands and events.

mod args;
mod commands;
mod ids;
mod output;
mod watch;

use std::{error::Error, time::Duration};

use args::Args;
use libp2p::{
    SwarmBuilder,
    futures::StreamExt,
    gossipsub, identify,
    identity::Keypair,
    noise,
    swarm::{NetworkBehaviour, Swarm, SwarmEvent},
    tcp, yamux,
};
use output::{digest, emit, hex};
use serde_json::json;
use sha2::{Digest, Sha256};
use tokio::io::{AsyncBufReadExt, BufReader, stdin};
use watch::Watch;

/// gossipsub has no events for what `Watch` tells.
const POLL: Duration = Duration::from_millis(20);

#[derive(NetworkBehaviour)]
struct Behaviour {
    gossipsub: gossipsub::Behaviour,
    identify: identify::Behaviour,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let args = Args::parse(std::env::args().skip(1))?;
    let mut swarm = build(&args)?;
    listen(&mut swarm, &args).await?;
    for topic in &args.topics {
        commands::obey(
            &mut swarm,
            &json!({"op": "subscribe", "topic": topic}).to_string(),
        );
    }
    for addr in &args.dials {
        commands::obey(&mut swarm, &json!({"op": "dial", "addr": addr}).to_string());
    }
    let mut lines = BufReader::new(stdin()).lines();
    let mut watch = Watch::default();
    let mut ticks = tokio::time::interval(POLL);
    loop {
        tokio::select! {
            line = lines.next_line() => match line? {
                Some(line) => commands::obey(&mut swarm, &line),
                None => return Ok(()),
            },
            event = swarm.select_next_some() => tell(event, args.id()),
            _ = ticks.tick() => watch.tell_changes(&swarm.behaviour().gossipsub),
        }
    }
}

fn build(args: &Args) -> Result<Swarm<Behaviour>, Box<dyn Error>> {
    let key = match &args.key_seed {
        Some(seed) => Keypair::ed25519_from_bytes(Sha256::digest(seed))?,
        None => Keypair::generate_ed25519(),
    };
    let behaviour = Behaviour {
        gossipsub: gossipsub::Behaviour::new(args.authenticity(&key), args.gossipsub()?)?,
        identify: identify::Behaviour::new(identify::Config::new(
            "/episub-interop/1.0.0".into(),
            key.public(),
        )),
    };
    Ok(SwarmBuilder::with_existing_identity(key)
        .with_tokio()
        .with_tcp(
            tcp::Config::default().nodelay(true),
            noise::Config::new,
            yamux::Config::default,
        )?
        .with_quic()
        .with_behaviour(|_| behaviour)?
        .with_swarm_config(|c| c.with_idle_connection_timeout(Duration::from_secs(600)))
        .build())
}

async fn listen(swarm: &mut Swarm<Behaviour>, args: &Args) -> Result<(), Box<dyn Error>> {
    let mut addrs = Vec::new();
    for addr in &args.listen {
        swarm.listen_on(addr.parse()?)?;
    }
    while addrs.len() < args.listen.len() {
        if let SwarmEvent::NewListenAddr { address, .. } = swarm.select_next_some().await {
            addrs.push(format!("{address}/p2p/{}", swarm.local_peer_id()));
        }
    }
    emit(json!({
        "event": "listening",
        "peer": swarm.local_peer_id().to_string(),
        "addrs": addrs,
        "versions": {
            "libp2p": env!("LIBP2P_VERSION"),
            "libp2p-gossipsub": env!("GOSSIPSUB_VERSION"),
            "rustc": env!("RUSTC_VERSION"),
        },
    }));
    Ok(())
}

fn tell(event: SwarmEvent<BehaviourEvent>, id: ids::Function) {
    use gossipsub::Event;
    match event {
        SwarmEvent::ConnectionEstablished {
            peer_id,
            num_established,
            ..
        } => {
            if num_established.get() == 1 {
                emit(json!({"event": "connected", "peer": peer_id.to_string()}));
            }
        }
        SwarmEvent::ConnectionClosed {
            peer_id,
            num_established: 0,
            ..
        } => {
            emit(json!({"event": "disconnected", "peer": peer_id.to_string()}));
        }
        SwarmEvent::OutgoingConnectionError { error, .. } => {
            emit(json!({"event": "failed", "op": "dial", "error": error.to_string()}));
        }
        SwarmEvent::Behaviour(BehaviourEvent::Gossipsub(event)) => match event {
            Event::Message { message, .. } => tell_delivery(&message, id),
            Event::Subscribed { peer_id, topic } => emit(json!({
                "event": "peer_subscribed", "peer": peer_id.to_string(), "topic": topic.to_string(),
            })),
            Event::Unsubscribed { peer_id, topic } => emit(json!({
                "event": "peer_unsubscribed", "peer": peer_id.to_string(), "topic": topic.to_string(),
            })),
            Event::SlowPeer {
                peer_id,
                failed_messages,
            } => emit(json!({
                "event": "slow_peer", "peer": peer_id.to_string(),
                "failed": format!("{failed_messages:?}"),
            })),
            Event::GossipsubNotSupported { peer_id } => {
                emit(json!({"event": "not_supported", "peer": peer_id.to_string()}));
            }
        },
        _ => {}
    }
}

fn tell_delivery(message: &gossipsub::Message, id: ids::Function) {
    let mut event = digest(&message.data);
    event["event"] = json!("delivery");
    event["topic"] = json!(message.topic.to_string());
    event["from"] = json!(message.source.map(|peer| peer.to_string()));
    event["id"] = json!(hex(&id(message)));
    emit(event);
}
