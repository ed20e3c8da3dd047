"use strict";

const { commands, window, workspace } = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

const LANGUAGE = "interlock-rules";

/** @type {LanguageClient | undefined} */
let client;

/** Start the server; in a workspace that is not trusted nothing is started. */
async function start() {
  if (!workspace.isTrusted || client !== undefined) {
    return;
  }
  const settings = workspace.getConfiguration("interlock");
  const command = settings.get("command") || "interlock";
  const journal = settings.get("journal");
  client = new LanguageClient(
    "interlock",
    "Interlock",
    { command, args: journal ? ["lsp", "--db", journal] : ["lsp"] },
    {
      documentSelector: [
        { language: LANGUAGE, scheme: "file" },
        { language: LANGUAGE, scheme: "untitled" },
      ],
      // Scenarios use rules, and rules may take the lines of a text file for values.
      synchronize: { fileEvents: workspace.createFileSystemWatcher("**/*.{rules,txt}") },
    },
  );
  try {
    await client.start();
  } catch (error) {
    client = undefined;
    const install = "pip install 'interlock[lsp]'";
    window.showErrorMessage(
      `'${command} lsp' does not start: ${error}. Install it with ${install}, or set interlock.command.`,
    );
  }
}

async function stop() {
  const running = client;
  client = undefined;
  await running?.stop();
}

async function restart() {
  await stop();
  await start();
}

exports.activate = async function activate(context) {
  context.subscriptions.push(
    commands.registerCommand("interlock.restart", restart),
    workspace.onDidGrantWorkspaceTrust(start),
    workspace.onDidChangeConfiguration((event) => {
      if (event.affectsConfiguration("interlock")) {
        restart();
      }
    }),
  );
  await start();
};

exports.deactivate = stop;
