// The key of this browser's login. Servers on other ports of the host receive the login's cookie, too, but
// their pages have another origin and cannot use the key. It signs and cannot be exported, so a program that
// listens here while the server is down cannot copy it.
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

// Returns a new private key, and its public key in the form that is sent.
export async function make() {
  const shape = { name: "ECDSA", namedCurve: "P-256" };
  const pair = await crypto.subtle.generateKey(shape, false, ["sign"]);
  return { key: pair.privateKey, shown: base64(await crypto.subtle.exportKey("raw", pair.publicKey)) };
}

export function keep(key) {
  return using("readwrite", (keys) => keys.put(key, LOGIN));
}

// Stores the key of a login that the provider has not confirmed yet; the previous key stays until then.
export function keepForNext(key) {
  return using("readwrite", (keys) => keys.put(key, NEXT));
}

export async function takeNext() {
  const key = await using("readonly", (keys) => keys.get(NEXT));
  await keep(key);
  await using("readwrite", (keys) => keys.delete(NEXT));
}

// Returns the signature of a challenge for one kind of connection; null if this browser has no key.
export async function sign(challenge, use = "terminal") {
  const key = await using("readonly", (keys) => keys.get(LOGIN)).catch(() => undefined);
  if (key === undefined) return null;
  const said = new TextEncoder().encode(`interlock ${use} ${location.origin} ${challenge}`);
  return base64(await crypto.subtle.sign({ name: "ECDSA", hash: "SHA-256" }, key, said));
}
