// A @waku/sds message channel behind a byte pipe: one JSON command per line in, one JSON answer
// per line out. The channel's timers are commands, because the package leaves them to its user.

import { createInterface } from "node:readline";
import { performance } from "node:perf_hooks";
import { Message, MessageChannel, MessageChannelEvent } from "@waku/sds";
// Not exported by the package, but needed to look into the log and to fill it.
import { MemLocalHistory } from "./node_modules/@waku/sds/dist/message_channel/mem_local_history.js";

let channel;
let history;
let events = [];

const hex = (bytes) => Buffer.from(bytes).toString("hex");
const bytes = (text) => Uint8Array.from(Buffer.from(text, "hex"));
const ids = (list) => list.map((item) => item.messageId);

function detailOf(detail) {
  if (typeof detail === "string") return detail;
  if (Array.isArray(detail)) return detail.map((item) => item.messageId ?? item);
  return detail?.messageId ?? detail?.messageIds ?? null;
}

const commands = {
  open({ channel_id, sender_id, options }) {
    history = new MemLocalHistory();
    channel = new MessageChannel(channel_id, sender_id, options ?? {}, history);
    for (const name of new Set(Object.values(MessageChannelEvent))) {
      channel.addEventListener(name, (event) => events.push([name, detailOf(event.detail)]));
    }
    return {};
  },
  async send({ content }) {
    let sent;
    channel.pushOutgoingMessage(bytes(content), async (message) => {
      sent = message;
      return { success: true };
    });
    await channel.processTasks();
    return { id: sent.messageId, message: hex(sent.encode()) };
  },
  async ephemeral({ content }) {
    let sent;
    await channel.pushOutgoingEphemeralMessage(bytes(content), async (message) => {
      sent = message;
      return true;
    });
    await channel.processTasks();
    return { id: sent.messageId, message: hex(sent.encode()) };
  },
  async sync() {
    let sent = null;
    await channel.pushOutgoingSyncMessage(async (message) => {
      sent = message;
      return true;
    });
    return { message: sent && hex(sent.encode()) };
  },
  async receive({ message }) {
    let decoded;
    try {
      decoded = Message.decode(bytes(message));
    } catch (error) {
      return { error: String(error) };
    }
    if (!decoded) return { error: "undecodable" };
    channel.pushIncomingMessage(decoded, undefined);
    await channel.processTasks();
    return {};
  },
  sweep_in() {
    return { missing: ids(channel.sweepIncomingBuffer()) };
  },
  sweep_out() {
    const { unacknowledged, possiblyAcknowledged } = channel.sweepOutgoingBuffer();
    return { unacknowledged: ids(unacknowledged), possibly: ids(possiblyAcknowledged) };
  },
  async sweep_repair() {
    const sent = [];
    await channel.sweepRepairIncomingBuffer(async (message) => {
      sent.push(hex(message.encode()));
      return true;
    });
    return { messages: sent };
  },
  log() {
    return { ids: ids(history.slice(0)) };
  },
  // Fill the log with the messages of a file (one in hex per line) except the last `timed`, and
  // measure how long receiving those takes.
  async bench({ messages, timed }) {
    const decoded = messages.map((message) => Message.decode(bytes(message)));
    history.push(...decoded.slice(0, -timed));
    const raw = messages.slice(-timed).map(bytes);
    const start = performance.now();
    const cpu = process.cpuUsage();
    for (const message of raw) {
      channel.pushIncomingMessage(Message.decode(message), undefined);
    }
    await channel.processTasks();
    const wall = (performance.now() - start) / 1000;
    const { user, system } = process.cpuUsage(cpu);
    // CPU time, as ours is measured; wall time where other threads of Node.js make that longer.
    const seconds = Math.min(wall, (user + system) / 1e6);
    return { seconds, log: history.length, rss: process.memoryUsage().rss };
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const { op, ...args } = JSON.parse(line);
  let answer;
  try {
    answer = await commands[op](args);
  } catch (error) {
    answer = { error: String(error) };
  }
  process.stdout.write(JSON.stringify({ ...answer, events }) + "\n");
  events = [];
}
