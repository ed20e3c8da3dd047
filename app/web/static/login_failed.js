// The provider's answer leaves the address bar.
history.replaceState(null, "", location.pathname);
