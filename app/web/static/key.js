// The key of this browser's login. Pages of other ports of the host, which get its cookie too, are of
// another origin and do not reach it. It signs and is never shown, so nobody who listens here while the
// server is down can take it along.
const KEYS = "interlock";
const LOGIN = "login";
const NEXT = "next";

function using(mode, act) {
  return new Promise((resolve, reject) => {
    const opening = indexedDB.open(KEYS, 1);
    opening.onupgradeneeded = () => opening.result.createObjectStore(KEYS);
    opening.onerror = () => reject(opening.error);
    opening.onsuccess = () => {
      const keys = opening.result.transaction(KEYS, mode);
      const asked = act(keys.objectStore(KEYS));
      keys.oncomplete = () => resolve(asked.result);
      keys.onabort = () => reject(keys.error);
      opening.result.close();
    };
  });
}

function base64(bytes) {
  return btoa(String.fromCharCode(...new Uint8Array(bytes)));
}

// A new pair, with its public key as it is sent.
export async function make() {
  const shape = { name: "ECDSA", namedCurve: "P-256" };
  const pair = await crypto.subtle.generateKey(shape, false, ["sign"]);
  return { key: pair.privateKey, shown: base64(await crypto.subtle.exportKey("raw", pair.publicKey)) };
}

export function keep(key) {
  return using("readwrite", (keys) => keys.put(key, LOGIN));
}

// The key of a login that a provider still has to agree to: the one before it stays until then.
export function keepForNext(key) {
  return using("readwrite", (keys) => keys.put(key, NEXT));
}

export async function takeNext() {
  const key = await using("readonly", (keys) => keys.get(NEXT));
  await keep(key);
  await using("readwrite", (keys) => keys.delete(NEXT));
}

// The signature of a challenge for one kind of connection, or null in a browser that has no key.
export async function sign(challenge, use = "terminal") {
  const key = await using("readonly", (keys) => keys.get(LOGIN)).catch(() => undefined);
  if (key === undefined) return null;
  const said = new TextEncoder().encode(`interlock ${use} ${location.origin} ${challenge}`);
  return base64(await crypto.subtle.sign({ name: "ECDSA", hash: "SHA-256" }, key, said));
}
