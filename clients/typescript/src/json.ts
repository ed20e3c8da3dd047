/** Exact JSON: the input that people approve is the input that is sent, and the input that runs. */

import type { JsonObject, JsonValue } from "./protocol.ts";

const PERHAPS_INEXACT = /\d{16}|\d[eE]/;
const TOKENS = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
const HALF_CHARACTER = /\p{Surrogate}/u;

/** Parse a server's text; also return the first number in it that JavaScript cannot represent exactly. */
export function readJson(text: string): { value: unknown; inexact: string | null } {
  const value: unknown = JSON.parse(text);
  if (!PERHAPS_INEXACT.test(text)) return { value, inexact: null };
  for (const [token] of text.matchAll(TOKENS)) {
    if (!token.startsWith('"') && !isExact(token)) return { value, inexact: token };
  }
  return { value, inexact: null };
}

function isExact(literal: string): boolean {
  const held = Number(literal);
  if (!Number.isFinite(held)) return false;
  // Numbers with a point or an exponent are doubles for the server, too.
  return !/^-?\d+$/.test(literal) || String(held) === literal || BigInt(held) === BigInt(literal);
}

/**
 * Return a copy of a value, as it is sent. Members that are `undefined` are left out.
 *
 * Throws `TypeError` for values without a JSON form, which `JSON.stringify` would skip or change: operators
 * could not approve what would run.
 */
export function asJson(value: unknown, at: string): JsonValue {
  switch (typeof value) {
    case "boolean":
      return value;
    case "string":
      return whole(value, at);
    case "number":
      if (Number.isFinite(value)) return value;
      throw new TypeError(`${at}: expected JSON, found ${value}`);
    case "object":
      if (value === null) return null;
      if (Array.isArray(value)) return Array.from(value, (each, place) => asJson(each, `${at}[${place}]`));
      if (isPlain(value)) return copied(value, at);
  }
  throw new TypeError(`${at}: expected JSON, found ${named(value)}`);
}

/** Return a copy of an object, as it is sent; see `asJson`. */
export function asJsonObject(value: unknown, at: string): JsonObject {
  if (typeof value !== "object" || value === null || !isPlain(value)) {
    throw new TypeError(`${at}: expected an object of JSON, found ${named(value)}`);
  }
  return copied(value, at);
}

function copied(value: object, at: string): JsonObject {
  const found: JsonObject = {};
  for (const [key, each] of Object.entries(value)) {
    if (each === undefined) continue;
    // A plain assignment to `__proto__` would not create a member.
    Object.defineProperty(found, whole(key, at), {
      value: asJson(each, `${at}.${key}`),
      configurable: true,
      enumerable: true,
      writable: true,
    });
  }
  return found;
}

function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return (prototype === null || Object.getPrototypeOf(prototype) === null) && !("toJSON" in value);
}

function whole(text: string, at: string): string {
  if (HALF_CHARACTER.test(text)) throw new TypeError(`${at}: expected text, found half a character in it`);
  return text;
}

function named(value: unknown): string {
  if (typeof value !== "object" || value === null) return value === null ? "null" : typeof value;
  if (Array.isArray(value)) return "an array";
  return `a ${(value.constructor as { name?: string } | undefined)?.name ?? "value"}`;
}

/** Return whether two values are the same JSON, whatever the order of members. */
export function sameJson(one: JsonValue, other: JsonValue): boolean {
  if (typeof one !== "object" || typeof other !== "object" || one === null || other === null) {
    return one === other;
  }
  if (Array.isArray(one) || Array.isArray(other)) {
    return (
      Array.isArray(one) &&
      Array.isArray(other) &&
      one.length === other.length &&
      one.every((each, place) => sameJson(each, other[place] as JsonValue))
    );
  }
  const keys = Object.keys(one);
  return (
    keys.length === Object.keys(other).length &&
    keys.every(
      (key) => Object.hasOwn(other, key) && sameJson(one[key] as JsonValue, other[key] as JsonValue),
    )
  );
}

/** Return the text of a value with its members sorted: equal for equal JSON. */
export function canonical(value: JsonValue): string {
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  const keys = Object.keys(value).sort();
  return `{${keys.map((key) => `${JSON.stringify(key)}:${canonical(value[key] as JsonValue)}`).join(",")}}`;
}
