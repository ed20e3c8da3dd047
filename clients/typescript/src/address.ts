/** Addresses of servers, and the token sent to them. */

import { constants, closeSync, fstatSync, openSync, readFileSync, statSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";

import { NotAdmittedError } from "./errors.ts";

const DEFAULT_URL = "ws://127.0.0.1:8737";
const NEXT_URL = /,(?=\s*(?:wss?|unix):)/;
const SECRET = /^[A-Za-z0-9._~+/=-]{8,200}$/;

/** An address of a server. `host` is the request's Host header, with the port unless it is the default. */
export interface Address {
  readonly url: string;
  readonly host: string;
  readonly isTls: boolean;
  readonly isUnix: boolean;
  readonly connectTo: { readonly host: string; readonly port: number } | { readonly socketPath: string };
}

/**
 * Parse comma-separated addresses; the default is INTERLOCK_URL or the default address.
 *
 * Throws `TypeError` for an invalid URL, and for one that would send a token unencrypted over a network.
 */
export function addresses(text?: string): Address[] {
  const found = text || process.env["INTERLOCK_URL"] || DEFAULT_URL;
  return found.split(NEXT_URL).map((each) => address(each.trim()));
}

function address(text: string): Address {
  if (text.startsWith("unix:") && text.length > 5) {
    const connectTo = { socketPath: text.slice(5) };
    return { url: text, host: "localhost", isTls: false, isUnix: true, connectTo };
  }
  const url = URL.canParse(text) ? new URL(text) : null;
  if (
    url === null ||
    !["ws:", "wss:"].includes(url.protocol) ||
    !url.hostname ||
    url.port === "0" ||
    url.username ||
    url.password ||
    url.pathname !== "/" ||
    /[?#]/.test(text)
  ) {
    throw new TypeError(`expected ws://HOST:PORT, wss://HOST:PORT or unix:PATH, found '${text}'`);
  }
  const isTls = url.protocol === "wss:";
  // `localhost` has several addresses: a program at another one could relay the challenge for a proof.
  if (!isTls && url.hostname === "localhost") url.hostname = "127.0.0.1";
  if (!isTls && !/^127(?:\.\d+){3}$|^\[::1\]$/.test(url.hostname)) {
    throw new TypeError(
      `${text} would send your token unencrypted; connect to wss://${url.host}, or use an SSH ` +
        `tunnel: ssh -L ${url.port || "80"}:127.0.0.1:${url.port || "80"} ${url.hostname}`,
    );
  }
  return {
    url: `${url.protocol}//${url.host}`,
    host: url.host,
    isTls,
    isUnix: false,
    connectTo: {
      host: url.hostname.replace(/^\[|\]$/g, ""),
      port: Number(url.port || (isTls ? 443 : 80)),
    },
  };
}

/** Check that this user owns a socket: another owner would get the token. Throws `NotAdmittedError`. */
export function checkOwner(path: string): void {
  const owner = statSync(path).uid;
  if (owner !== process.geteuid?.() && owner !== 0) {
    throw new NotAdmittedError(
      `unix:${path}: the socket belongs to another user, who would learn the token. Let the server ` +
        "listen in a directory of your own",
    );
  }
}

/**
 * Return a reader of the token: the given one, else INTERLOCK_TOKEN, else that in this user's file.
 *
 * The file is read each time. Throws `TypeError` for a missing or invalid token; the message omits it.
 */
export function tokenReader(given?: string): () => string {
  const named = given || process.env["INTERLOCK_TOKEN"];
  if (named) {
    const checked = checkedSecret(named, "the token");
    return () => checked;
  }
  return () => usualToken(join(configDirectory(), "agent.token"));
}

function usualToken(path: string): string {
  let descriptor: number;
  try {
    descriptor = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  } catch (error) {
    throw new TypeError(`${path}: there is no token; \`interlock serve\` makes one`, { cause: error });
  }
  try {
    const status = fstatSync(descriptor);
    if (!status.isFile()) throw new TypeError(`${path}: is not a file`);
    if (status.uid !== process.geteuid?.() && status.uid !== 0) {
      throw new TypeError(`${path}: belongs to another user`);
    }
    if ((status.mode & 0o077) !== 0) {
      throw new TypeError(
        `${path}: others may read or write it; run: chmod 600 '${path}', and rotate the tokens if somebody ` +
          "has read them",
      );
    }
    return checkedSecret(readFileSync(descriptor, "utf8").trim(), path);
  } finally {
    closeSync(descriptor);
  }
}

function checkedSecret(secret: string, where: string): string {
  if (SECRET.test(secret)) return secret;
  throw new TypeError(`${where}: it does not contain a token; expected one like ilk_agent_…, on one line`);
}

function configDirectory(): string {
  const given = process.env["INTERLOCK_CONFIG_DIR"];
  if (given) return given;
  if (process.platform === "darwin") return join(homedir(), "Library", "Application Support", "interlock");
  return join(process.env["XDG_CONFIG_HOME"]?.trim() || join(homedir(), ".config"), "interlock");
}
