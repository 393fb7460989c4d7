// The interop peer of js-libp2p. interop/README.md has the flags, commands and events.
import "./polyfill.mjs";

import { createHash } from "node:crypto";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { parseArgs } from "node:util";

const { noise } = await import("@chainsafe/libp2p-noise");
const { yamux } = await import("@chainsafe/libp2p-yamux");
const { generateKeyPairFromSeed } = await import("@libp2p/crypto/keys");
const { gossipsub } = await import("@libp2p/gossipsub");
const { identify } = await import("@libp2p/identify");
const { tcp } = await import("@libp2p/tcp");
const { multiaddr } = await import("@multiformats/multiaddr");
const { createLibp2p } = await import("libp2p");

// Milliseconds: gossipsub has no events for what `watch` tells.
const POLL = 20;

const { values: args } = parseArgs({
  options: {
    listen: { type: "string", multiple: true, default: ["/ip4/127.0.0.1/tcp/0"] },
    dial: { type: "string", multiple: true, default: [] },
    topic: { type: "string", multiple: true, default: [] },
    protocol: { type: "string" },
    "key-seed": { type: "string" },
    mesh: { type: "string", default: "4,6,12" },
    heartbeat: { type: "string", default: "1000" },
    px: { type: "boolean", default: false },
    "no-sign": { type: "boolean", default: false },
    policy: { type: "string", default: "StrictSign" },
    ids: { type: "string" },
    "library-ids": { type: "boolean", default: false },
  },
});

function emit(event, fields) {
  process.stdout.write(JSON.stringify({ event, ...fields }) + "\n");
}

function sha256(data) {
  return createHash("sha256").update(data).digest();
}

// SHA-256 of "seed/0", "seed/1", ..., cut to `size` bytes.
function makePayload(size, seed) {
  const blocks = Array.from({ length: Math.ceil(size / 32) }, (_, i) => sha256(`${seed}/${i}`));
  return new Uint8Array(Buffer.concat(blocks).subarray(0, size));
}

function digest(data) {
  return { size: data.length, sha256: sha256(data).toString("hex") };
}

// The message id of the gossipsub specification; the library's own begins with the public key.
function messageId(message) {
  const seqno = Buffer.alloc(8);
  seqno.writeBigUInt64BE(message.sequenceNumber);
  return new Uint8Array(Buffer.concat([message.from.toMultihash().bytes, seqno]));
}

// Ids of the content alone. "ethereum" is Altair's function for data that isn't Snappy's: the domain
// MESSAGE_DOMAIN_INVALID_SNAPPY, the topic with its length, and the data.
const contentIds = {
  data: ({ data }) => new Uint8Array(sha256(data)),
  ethereum({ topic, data }) {
    const length = Buffer.alloc(8);
    length.writeBigUInt64LE(BigInt(Buffer.byteLength(topic)));
    const text = Buffer.concat([Buffer.alloc(4), length, Buffer.from(topic), data]);
    return new Uint8Array(sha256(text).subarray(0, 20));
  },
};

const [low, degree, high] = args.mesh.split(",").map(Number);
// The transport of /quic-v1 addresses is a native library, which not every platform has.
const transports = [tcp()];
if (args.listen.some((addr) => addr.includes("/quic-v1"))) {
  const { quic } = await import("@chainsafe/libp2p-quic");
  transports.push(quic());
}

const pubsubOptions = {
  allowPublishToZeroTopicPeers: true,
  D: degree,
  Dlo: low,
  Dhi: high,
  Dscore: Math.min(4, degree),
  Dout: Math.min(2, Math.floor(degree / 2), low),
  heartbeatInterval: Number(args.heartbeat),
  doPX: args.px,
  globalSignaturePolicy: args["no-sign"] ? "StrictNoSign" : args.policy,
};
if (!args["no-sign"] && !args["library-ids"]) pubsubOptions.msgIdFn = messageId;
if (args.ids) pubsubOptions.msgIdFn = contentIds[args.ids];

function pubsubService(components) {
  const service = gossipsub(pubsubOptions)(components);
  if (args.protocol) service.protocols = [args.protocol];
  return service;
}

const node = await createLibp2p({
  ...(args["key-seed"] && {
    privateKey: await generateKeyPairFromSeed("Ed25519", sha256(args["key-seed"])),
  }),
  addresses: { listen: args.listen },
  transports,
  connectionEncrypters: [noise()],
  streamMuxers: [yamux()],
  services: { identify: identify(), pubsub: pubsubService },
});
const pubsub = node.services.pubsub;

const commands = {
  async publish({ topic, data, size, seed }) {
    const payload =
      data === undefined ? makePayload(size, seed) : new Uint8Array(Buffer.from(data, "base64"));
    await pubsub.publish(topic, payload);
    emit("published", { topic, ...digest(payload) });
  },
  subscribe({ topic }) {
    pubsub.subscribe(topic);
    emit("subscribed", { topic });
  },
  unsubscribe({ topic }) {
    pubsub.unsubscribe(topic);
    emit("unsubscribed", { topic });
  },
  async dial({ addr }) {
    await node.dial(multiaddr(addr));
  },
};

async function obey(line) {
  let op;
  try {
    const command = JSON.parse(line);
    op = command.op;
    if (!Object.hasOwn(commands, op)) throw new Error(`no command is called ${op}`);
    await commands[op](command);
  } catch (error) {
    emit("failed", { op, error: String(error) });
  }
}

node.addEventListener("peer:connect", ({ detail }) => emit("connected", { peer: `${detail}` }));
node.addEventListener("peer:disconnect", ({ detail }) =>
  emit("disconnected", { peer: `${detail}` }),
);
pubsub.addEventListener("subscription-change", ({ detail }) => {
  for (const { topic, subscribe } of detail.subscriptions) {
    emit(subscribe ? "peer_subscribed" : "peer_unsubscribed", { peer: `${detail.peerId}`, topic });
  }
});
pubsub.addEventListener("message", ({ detail }) => {
  const idOf = contentIds[args.ids] ?? (detail.type === "signed" ? messageId : () => "");
  const id = Buffer.from(idOf(detail)).toString("hex");
  emit("delivery", { topic: detail.topic, from: `${detail.from}`, id, ...digest(detail.data) });
});

const protocols = new Map();
const meshes = new Map();
function watch() {
  for (const [peer, { protocol }] of pubsub.streamsOutbound) {
    if (protocols.get(peer) !== protocol) emit("protocol", { peer, protocol });
    protocols.set(peer, protocol);
  }
  for (const topic of new Set([...pubsub.mesh.keys(), ...meshes.keys()])) {
    const peers = pubsub.getMeshPeers(topic).sort();
    if (peers.join() !== (meshes.get(topic) ?? "")) emit("mesh", { topic, peers });
    meshes.set(topic, peers.join());
  }
}
const watching = setInterval(watch, POLL);

const version = (name) => {
  const path = createRequire(import.meta.url).resolve.paths(name)[0];
  return createRequire(import.meta.url)(`${path}/${name}/package.json`).version;
};
emit("listening", {
  peer: `${node.peerId}`,
  addrs: node.getMultiaddrs().map(String),
  versions: {
    libp2p: version("libp2p"),
    "@libp2p/gossipsub": version("@libp2p/gossipsub"),
    node: process.versions.node,
  },
});
for (const topic of args.topic) commands.subscribe({ topic });
for (const addr of args.dial) await obey(JSON.stringify({ op: "dial", addr }));
// Commands are carried out one after the other, in their order; dials don't hold up the rest.
for await (const line of createInterface({ input: process.stdin })) {
  const done = obey(line);
  if (!line.includes('"dial"')) await done;
}
clearInterval(watching);
await node.stop();
