// The terminal writes style sheets of its own, which the page's policy admits with its nonce only.
{
  const { nonce } = document.currentScript.dataset;
  const create = document.createElement.bind(document);
  document.createElement = (name, ...options) => {
    const made = create(name, ...options);
    if (made instanceof HTMLStyleElement) made.nonce = nonce;
    return made;
  };
}
