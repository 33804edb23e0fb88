// Prints the profile that sandbox-runtime writes for a policy on a Mac: its
// own wrapper's command line, with sandbox-exec's -p argument cut out by the
// test. argv: the package's directory, the policy as JSON.
const [dir, policy] = process.argv.slice(2);
const p = JSON.parse(policy);
process.cwd = () => p.workspace;
const { wrapCommandWithSandboxMacOS } = await import(dir + '/dist/sandbox/macos-sandbox-utils.js');
process.stdout.write(wrapCommandWithSandboxMacOS({
  command: 'true', needsNetworkRestriction: true, httpProxyPort: p.port, socksProxyPort: p.port,
  readConfig: { denyOnly: p.deny, allowWithinDeny: p.allow },
  writeConfig: { allowOnly: p.write, denyWithinAllow: p.readOnly },
  allowUnixSockets: p.sockets, allowPty: true, binShell: 'sh',
}));
