// Remove the provider's answer from the address bar.
history.replaceState(null, "", location.pathname);
