"""Commands about servers: gateway, browser, tokens, notifications."""
