/**
 * A WebSocket to a server, over Node's own HTTP and TLS.
 *
 * Node before 22 has no WebSocket, and that of 22 cannot send headers, trust a custom certificate or report
 * why it was refused. A client needs only a small part of RFC 6455, and a gate should not add other packages
 * to an agent.
 */

import { createHash, createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import * as http from "node:http";
import * as https from "node:https";
import type { Duplex } from "node:stream";

import { checkOwner, type Address } from "./address.ts";
import { NotAdmittedError, UnreachableError } from "./errors.ts";

const SUBPROTOCOL = "interlock.v1";
const GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/** Milliseconds for a server to answer before there is a connection, and for its greeting. */
export const GREETING = 15_000;
const CLOSING = 5_000;
const ALIVE = 20_000;
/** Maximum bytes of a message: a server is trusted more than its clients. */
const LARGEST = 64 << 20;
const LONGEST_TEXT = 1 << 14;
const TEXT = 1;
const CLOSE = 8;
const PING = 9;
const PONG = 10;

/** Callbacks for messages of a connection, and for its end, which happens once. */
export interface Listener {
  message(text: string): void;
  end(): void;
}

/** An open connection; no callback is called before `listen`. */
export class Socket {
  readonly #stream: Duplex;
  readonly #frames = new FrameReader();
  #listener: Listener | null = null;
  #isHeard = true;
  #ended = false;
  #hasClosed = false;
  readonly #keepalive: NodeJS.Timeout;

  constructor(stream: Duplex, head: Buffer) {
    this.#stream = stream;
    stream.on("data", (chunk: Buffer) => this.#take(chunk));
    stream.on("error", () => this.#end());
    stream.on("end", () => this.#end());
    stream.on("close", () => this.#end());
    stream.pause();
    if (head.length > 0) stream.unshift(head);
    this.#keepalive = setInterval(() => this.#checkAlive(), ALIVE);
    this.#keepalive.unref();
  }

  /** Start reading, and pass messages to the listener. */
  listen(listener: Listener): void {
    this.#listener = listener;
    if (this.#ended) listener.end();
    else this.#stream.resume();
  }

  get isOpen(): boolean {
    return !this.#ended && !this.#hasClosed;
  }

  send(text: string): void {
    this.#write(TEXT, Buffer.from(text, "utf8"));
  }

  /** Send a close frame; cut the connection if the server does not answer with one. */
  close(): void {
    if (this.#ended) return;
    this.#sayClose();
    setTimeout(() => this.#end(), CLOSING).unref();
  }

  /** Cut the connection. */
  abort(): void {
    this.#end();
  }

  #take(chunk: Buffer): void {
    this.#isHeard = true;
    try {
      for (const { kind, data } of this.#frames.feed(chunk)) {
        if (this.#ended) return;
        if (kind === TEXT) this.#listener?.message(new TextDecoder("utf-8", STRICT).decode(data));
        else if (kind === PING) this.#write(PONG, data);
        else if (kind === CLOSE) {
          this.#sayClose();
          return this.#end();
        }
      }
    } catch {
      // A server that violates the protocol is not trusted: open requests get no answer.
      this.#end();
    }
  }

  #checkAlive(): void {
    if (!this.#isHeard) return this.#end();
    this.#isHeard = false;
    this.#write(PING, Buffer.alloc(0));
  }

  #sayClose(): void {
    if (!this.#hasClosed) this.#write(CLOSE, Buffer.from([0x03, 0xe8]));
    this.#hasClosed = true;
  }

  #write(kind: number, data: Buffer): void {
    if (this.isOpen) this.#stream.write(maskedFrame(kind, data));
  }

  #end(): void {
    if (this.#ended) return;
    this.#ended = true;
    clearInterval(this.#keepalive);
    if (this.#hasClosed) {
      // Written data is sent before the connection is destroyed.
      this.#stream.end(() => this.#stream.destroy());
      setTimeout(() => this.#stream.destroy(), CLOSING).unref();
    } else this.#stream.destroy();
    this.#listener?.end();
  }
}

const STRICT = { fatal: true, ignoreBOM: true } as const;

function maskedFrame(kind: number, data: Buffer): Buffer {
  const wide = data.length > 0xffff ? 8 : data.length > 125 ? 2 : 0;
  const frame = Buffer.allocUnsafe(2 + wide + 4 + data.length);
  frame[0] = 0x80 | kind;
  frame[1] = 0x80 | (wide === 8 ? 127 : wide === 2 ? 126 : data.length);
  if (wide === 2) frame.writeUInt16BE(data.length, 2);
  else if (wide === 8) frame.writeBigUInt64BE(BigInt(data.length), 2);
  const mask = randomBytes(4);
  mask.copy(frame, 2 + wide);
  for (let at = 0, to = 6 + wide; at < data.length; at++, to++) {
    frame[to] = data[at]! ^ mask[at & 3]!;
  }
  return frame;
}

interface Frame {
  readonly kind: number;
  readonly data: Buffer;
}

/** Parser of the frames in a server's bytes. Throws for anything that a server must not send. */
export class FrameReader {
  #chunks: Buffer[] = [];
  #size = 0;
  #needed = 2;
  #parts: Buffer[] | null = null;
  #total = 0;

  *feed(chunk: Buffer): Generator<Frame> {
    this.#chunks.push(chunk);
    this.#size += chunk.length;
    // Joined only once enough has arrived: a large message comes in many pieces.
    while (this.#size >= this.#needed) {
      const bytes = Buffer.concat(this.#chunks);
      this.#chunks = [bytes];
      const [start, end] = this.#bounds(bytes);
      this.#needed = end;
      if (bytes.length < end) return;
      this.#chunks = [bytes.subarray(end)];
      this.#size = bytes.length - end;
      this.#needed = 2;
      const message = this.#message(bytes[0]!, bytes.subarray(start, end));
      if (message !== null) yield message;
    }
  }

  /** Return where a frame's data begins and ends, or the number of bytes needed to determine that. */
  #bounds(bytes: Buffer): [number, number] {
    const length = bytes[1]!;
    if ((length & 0x80) !== 0) throw new Error("a server's frame is masked");
    const start = length === 127 ? 10 : length === 126 ? 4 : 2;
    if (bytes.length < start) return [start, start];
    const size =
      length === 127 ? Number(bytes.readBigUInt64BE(2)) : length === 126 ? bytes.readUInt16BE(2) : length;
    if (this.#total + size > LARGEST) throw new Error("a message is too large");
    return [start, start + size];
  }

  #message(first: number, data: Buffer): Frame | null {
    const isLast = (first & 0x80) !== 0;
    const kind = first & 0x0f;
    if ((first & 0x70) !== 0) throw new Error("a frame has an extension that was not agreed on");
    if (kind === CLOSE || kind === PING || kind === PONG) {
      if (!isLast || data.length > 125) throw new Error("a control frame is too long");
      return { kind, data };
    }
    if (kind !== (this.#parts === null ? TEXT : 0)) throw new Error("a frame is not the next of a text");
    const parts = this.#parts ?? [];
    parts.push(data);
    this.#total += data.length;
    this.#parts = isLast ? null : parts;
    if (!isLast) return null;
    this.#total = 0;
    return { kind: TEXT, data: parts.length === 1 ? parts[0]! : Buffer.concat(parts) };
  }
}

/** Terms of a connection. `ca` are certificates to trust, in PEM. */
export interface Terms {
  readonly address: Address;
  readonly path: string;
  readonly token: string;
  readonly ca: string | undefined;
}

/**
 * Connect to a server. Where other programs could listen, the server first proves that it knows the token.
 * Redirects are not followed, so that the token is sent nowhere else.
 *
 * Throws `UnreachableError` and `NotAdmittedError`.
 */
export async function dial(terms: Terms): Promise<Socket> {
  const { address } = terms;
  try {
    if (address.isUnix) checkOwner((address.connectTo as { socketPath: string }).socketPath);
    else if (!address.isTls) await askForProof(address, terms.token);
    return await upgrade(terms);
  } catch (error) {
    if (error instanceof UnreachableError || error instanceof NotAdmittedError) throw error;
    const reason = error instanceof Error ? error : new Error(String(error));
    if (address.isTls && isAboutTrust(reason)) {
      throw new NotAdmittedError(
        `${address.url}: its certificate is not trusted (${reason.message}); name the one that vouches for ` +
          "it in INTERLOCK_CA",
        { cause: error },
      );
    }
    const said = reason.message || (reason as NodeJS.ErrnoException).code || "no connection";
    throw new UnreachableError(`No Interlock server answers at ${address.url}: ${said}`, { cause: error });
  }
}

function isAboutTrust(error: NodeJS.ErrnoException): boolean {
  return /CERT|ALTNAME|SELF_SIGNED|UNABLE_TO_VERIFY|UNABLE_TO_GET_ISSUER/.test(error.code ?? "");
}

function upgrade({ address, path, token, ca }: Terms): Promise<Socket> {
  const key = randomBytes(16).toString("base64");
  const accept = createHash("sha1").update(key + GUID).digest("base64");
  return new Promise((resolve, reject) => {
    const asked = send(address, ca, path, {
      Authorization: `Bearer ${token}`,
      Connection: "Upgrade",
      Upgrade: "websocket",
      "Sec-WebSocket-Key": key,
      "Sec-WebSocket-Version": "13",
      "Sec-WebSocket-Protocol": SUBPROTOCOL,
    });
    const late = setTimeout(() => asked.destroy(new Error("it does not answer")), GREETING);
    const fail = (error: Error): void => {
      clearTimeout(late);
      asked.destroy();
      reject(error);
    };
    asked.on("error", fail);
    asked.on("response", (response) => {
      textOf(response).then((why) => fail(refusal(address.url, response.statusCode ?? 0, why)), fail);
    });
    asked.on("upgrade", (response, stream, head) => {
      clearTimeout(late);
      const { headers } = response;
      if (
        headers.upgrade?.toLowerCase() !== "websocket" ||
        headers["sec-websocket-accept"] !== accept ||
        headers["sec-websocket-protocol"] !== SUBPROTOCOL ||
        headers["sec-websocket-extensions"] !== undefined
      ) {
        stream.destroy();
        return reject(new Error("what listens there does not speak this protocol"));
      }
      resolve(new Socket(stream, head));
    });
    asked.end();
  });
}

function refusal(url: string, status: number, why: string): Error {
  const said = `${url}: ${why || `it answers with HTTP status ${status}`}`;
  return status === 429 || status === 503 ? new UnreachableError(said) : new NotAdmittedError(said);
}

async function askForProof(address: Address, token: string): Promise<void> {
  const key = createHash("sha256").update(token).digest();
  const hmac = (subject: string): string => createHmac("sha256", key).update(`interlock ${subject}`).digest("hex");
  const nonce = randomBytes(32).toString("hex");
  const asked = send(address, undefined, "/proof", {
    "Interlock-Token": hmac("name").slice(0, 32),
    "Interlock-Nonce": nonce,
    Connection: "close",
  });
  const late = setTimeout(() => asked.destroy(new Error("it does not answer")), GREETING);
  try {
    const response = await new Promise<http.IncomingMessage>((resolve, reject) => {
      asked.on("response", resolve);
      asked.on("upgrade", (_, stream) => {
        // An error of the stream would be unhandled, and end the process.
        stream.destroy();
        reject(new Error("it answers what nobody asked"));
      });
      asked.on("error", reject);
      asked.end();
    });
    const body = await textOf(response);
    const wanted = Buffer.from(hmac(`proof ${address.host.toLowerCase()} ${nonce}`));
    const given = Buffer.from(body);
    if (response.statusCode === 200 && given.length === wanted.length && timingSafeEqual(given, wanted)) return;
    if (response.statusCode === 429 || response.statusCode === 503) {
      throw new UnreachableError(`${address.url}: ${body || "it accepts no connections now"}`);
    }
    throw new NotAdmittedError(
      response.statusCode === 401
        ? `${address.url}: it does not know this token, which was not sent`
        : `${address.url}: the program that listens there does not know this token, which was not sent. ` +
            "Is it your server, and of this version?",
    );
  } finally {
    clearTimeout(late);
    asked.destroy();
  }
}

function send(
  address: Address,
  ca: string | undefined,
  path: string,
  headers: Record<string, string>,
): http.ClientRequest {
  const terms = { ...address.connectTo, path, headers: { Host: address.host, ...headers }, agent: false as const };
  if (!address.isTls) return http.request(terms);
  return https.request(ca === undefined ? terms : { ...terms, ca });
}

/** Return the text of a response, or its beginning. */
async function textOf(response: http.IncomingMessage): Promise<string> {
  let text = Buffer.alloc(0);
  for await (const chunk of response as AsyncIterable<Buffer>) {
    text = Buffer.concat([text, chunk]);
    if (text.length >= LONGEST_TEXT) break;
  }
  return text.subarray(0, LONGEST_TEXT).toString("utf8").trim();
}
