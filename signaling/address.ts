/** Which addresses this machine can be reached at. */
import { networkInterfaces } from 'node:os';

/** IPv4 addresses of this machine, loopback excluded. (Its IPv6 addresses change daily, and nobody types them.) */
export function localAddresses(): string[] {
  const all = Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? []);
  return all.filter((a) => a.family === 'IPv4' && !a.internal).map((a) => a.address);
}

export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || host.startsWith('127.');
}

function isWildcard(host: string): boolean {
  return host === '0.0.0.0' || host === '::' || host === '';
}

/** What people can type to reach a server that listens on `host`: never empty, the best first. */
export function reachableHosts(host: string): string[] {
  if (isWildcard(host)) return [...localAddresses(), 'localhost'];
  return [host.includes(':') ? `[${host}]` : host];
}
