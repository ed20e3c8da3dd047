/** Results of tools as a model reads them: their text, failures that they return, and edits of their input. */

import { sameJson } from "./json.ts";
import type { JsonObject, JsonValue } from "./protocol.ts";

/** Returns whether a tool failed, given its name and the value that it returned. */
export type ResultClassifier = (tool: string, value: unknown) => boolean;

const ERROR_TEXT = /^\s*(?:error:|traceback \(most recent call last\):)/i;
/** Longest value, in characters, shown in full; of a longer one only the difference and its surroundings. */
const LONGEST = 200;
const AROUND = 20;
const NO_TEXT = "a value that has no text";

/**
 * Return whether a tool's value has a common form of failure (G-71): a text that begins with `Error:` or
 * is a Python traceback; an object, or the text of a JSON object, with something in `error`, with `ok` or
 * `success` false, or with `isError` or `is_error` true.
 */
export function returnedFailure(_tool: string, value: unknown): boolean {
  let found = value;
  if (typeof found === "string") {
    if (ERROR_TEXT.test(found)) return true;
    if (!found.trimStart().startsWith("{")) return false;
    try {
      found = JSON.parse(found);
    } catch {
      return false;
    }
  }
  if (typeof found !== "object" || found === null || Array.isArray(found)) return false;
  const { error, ok, success, isError, is_error } = found as Record<string, unknown>;
  return isSomething(error) || ok === false || success === false || isError === true || is_error === true;
}

function isSomething(value: unknown): boolean {
  if (typeof value !== "object" || value === null || value instanceof Error) return Boolean(value);
  return Object.keys(value).length > 0;
}

/** Return whether a tool's value is a failure; an exception of the classifier counts as one (G-30). */
export function isFailure(classifier: ResultClassifier, tool: string, value: unknown): boolean {
  try {
    return classifier(tool, value);
  } catch {
    return true;
  }
}

/** Return a tool's result as a model reads it. */
export function resultText(value: unknown): string {
  if (typeof value === "string") return value;
  try {
    return JSON.stringify(value) ?? "";
  } catch {
    return asText(value);
  }
}

/** Return a tool's exception as the text of its recorded result. */
export function failureText(error: unknown): string {
  try {
    return error instanceof Error ? `${error.name}: ${error.message}` : `Error: ${resultText(error)}`;
  } catch {
    return `Error: ${NO_TEXT}`;
  }
}

/** Return a value's own text; never throws, because a tool that has run must be reported. */
function asText(value: unknown): string {
  try {
    return String(value);
  } catch {
    return NO_TEXT;
  }
}

/** Return the longest beginning of a text with at most `most` bytes as JSON, with a note. */
export function shortened(text: string, most: number): string {
  // Lone surrogates, which some tools print, cannot be sent.
  const whole = Buffer.from(text, "utf8").toString("utf8");
  const size = (part: string): number => Buffer.byteLength(JSON.stringify(part));
  if (size(whole) <= most) return whole;
  const characters = [...whole];
  let kept = Math.floor((characters.length * most) / size(whole));
  while (size(characters.slice(0, kept).join("")) > most) kept = Math.floor((kept * 3) / 4);
  return `${characters.slice(0, kept).join("")}\n… (${characters.length - kept} more characters were not sent)`;
}

/** Return `A person changed env from "prod" to "staging" before it ran.`; `null` if both are equal JSON. */
export function editNotice(before: JsonObject, after: JsonObject): string | null {
  const changes: string[] = [];
  for (const [name, value] of Object.entries(before)) {
    if (!Object.hasOwn(after, name)) changes.push(`removed ${name}`);
    else if (!sameJson(value, after[name] as JsonValue)) {
      const [old, now] = differing(JSON.stringify(value), JSON.stringify(after[name]));
      changes.push(`changed ${name} from ${old} to ${now}`);
    }
  }
  for (const [name, value] of Object.entries(after)) {
    if (!Object.hasOwn(before, name)) changes.push(`added ${name}: ${middleCut([...JSON.stringify(value)])}`);
  }
  const last = changes.pop();
  if (last === undefined) return null;
  const most = changes.length > 0 ? `${changes.join(", ")} and ` : "";
  return `A person ${most}${last} before it ran.`;
}

function differing(before: string, after: string): [string, string] {
  const old = [...before];
  const now = [...after];
  const shorter = Math.min(old.length, now.length);
  if (Math.max(old.length, now.length) <= LONGEST) return [before, after];
  let start = 0;
  while (start < shorter && old[start] === now[start]) start++;
  let tail = 0;
  while (tail < shorter - start && old[old.length - 1 - tail] === now[now.length - 1 - tail]) tail++;
  return [excerpt(old, start, old.length - tail), excerpt(now, start, now.length - tail)];
}

function excerpt(text: string[], start: number, end: number): string {
  const first = Math.max(0, start - AROUND);
  const last = Math.min(text.length, end + AROUND);
  return `${first > 0 ? "…" : ""}${middleCut(text.slice(first, last))}${last < text.length ? "…" : ""}`;
}

function middleCut(text: string[]): string {
  if (text.length <= LONGEST) return text.join("");
  const half = LONGEST / 2;
  return `${text.slice(0, half).join("")}…${text.slice(-half).join("")}`;
}
