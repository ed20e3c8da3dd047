/** A server on loopback that knows the token and gives the answers of a test. */

import { createHash, createHmac } from "node:crypto";
import { createServer } from "node:http";

export const TOKEN = "ilk_agent_of_a_test";
const GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
export const WELCOME = { version: 1, server: "fake", kind: "agent", name: "bot", frame: 1 << 20 };
export const OPEN = { session: "s", mode: "enforce", active: [] };

/** Return the bytes of a server's frame. */
export function frame(text, { kind = 1, last = true } = {}) {
  const data = Buffer.from(text);
  const head =
    data.length > 0xffff
      ? Buffer.concat([Buffer.from([127, 0, 0, 0, 0]), uint32(data.length)])
      : data.length > 125
        ? Buffer.from([126, data.length >> 8, data.length & 0xff])
        : Buffer.from([data.length]);
  return Buffer.concat([Buffer.from([(last ? 0x80 : 0) | kind]), head, data]);
}

function uint32(value) {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

/** Yield the texts of a client's frames. */
function* texts(state, chunk) {
  state.bytes = Buffer.concat([state.bytes, chunk]);
  for (;;) {
    const { bytes } = state;
    if (bytes.length < 2) return;
    const short = bytes[1] & 0x7f;
    const start = short === 127 ? 10 : short === 126 ? 4 : 2;
    if (bytes.length < start + 4) return;
    const size = short === 127 ? Number(bytes.readBigUInt64BE(2)) : short === 126 ? bytes.readUInt16BE(2) : short;
    if (bytes.length < start + 4 + size) return;
    const mask = bytes.subarray(start, start + 4);
    const data = Buffer.from(bytes.subarray(start + 4, start + 4 + size)).map((byte, at) => byte ^ mask[at & 3]);
    state.bytes = bytes.subarray(start + 4 + size);
    if ((bytes[0] & 0x0f) === 1) yield data.toString("utf8");
  }
}

/**
 * `answers` maps methods to results, or to functions of the parameters that return a result, a `Buffer` of
 * bytes to send instead, or `{ error }`. `asked` collects all requests, `headers` all received headers.
 */
export class Fake {
  asked = [];
  headers = [];

  constructor(answers = {}, { upgrade = null, proof = null } = {}) {
    this.answers = { hello: WELCOME, "session.open": OPEN, "session.resume": OPEN, "tool.result": {}, ...answers };
    this.proof = proof;
    this.server = createServer((request, response) => this.#http(request, response));
    this.server.on("upgrade", (request, stream) => {
      this.headers.push(request.headers);
      stream.on("error", () => undefined);
      if (upgrade !== null) return stream.end(upgrade);
      const accept = createHash("sha1").update(request.headers["sec-websocket-key"] + GUID).digest("base64");
      stream.write(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
          `Sec-WebSocket-Accept: ${accept}\r\nSec-WebSocket-Protocol: interlock.v1\r\n\r\n`,
      );
      const state = { bytes: Buffer.alloc(0) };
      stream.on("data", (chunk) => {
        for (const text of texts(state, chunk)) this.#answer(stream, JSON.parse(text));
      });
      this.stream = stream;
    });
  }

  async open() {
    await new Promise((resolve) => this.server.listen(0, "127.0.0.1", resolve));
    this.url = `ws://127.0.0.1:${this.server.address().port}`;
    return this;
  }

  close() {
    this.stream?.destroy();
    this.server.close();
    this.server.closeAllConnections();
  }

  #http(request, response) {
    this.headers.push(request.headers);
    if (this.proof !== null) return this.proof(request, response);
    const key = createHash("sha256").update(TOKEN).digest();
    const subject = `interlock proof ${request.headers.host} ${request.headers["interlock-nonce"]}`;
    response.end(createHmac("sha256", key).update(subject).digest("hex"));
  }

  async #answer(stream, { id, method, params }) {
    this.asked.push({ method, params });
    const given = this.answers[method];
    const result = typeof given === "function" ? await given(params, id) : given;
    if (Buffer.isBuffer(result)) stream.write(result);
    else if (result?.error !== undefined) stream.write(frame(JSON.stringify({ jsonrpc: "2.0", id, ...result })));
    else if (result !== undefined) stream.write(frame(JSON.stringify({ jsonrpc: "2.0", id, result })));
  }
}
