// The terminal adds its own style sheets, which the page's policy permits only with its nonce.
{
  const { nonce } = document.currentScript.dataset;
  const create = document.createElement.bind(document);
  document.createElement = (name, ...options) => {
    const made = create(name, ...options);
    if (made instanceof HTMLStyleElement) made.nonce = nonce;
    return made;
  };
}
