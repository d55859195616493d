/** Which addresses this machine can be reached at, and which ones count as one. */
import type { IncomingMessage } from 'node:http';
import { isIP, isIPv6 } from 'node:net';
import { networkInterfaces } from 'node:os';

/**
 * IPv4 addresses of this machine, loopback excluded. (Its IPv6 addresses change daily, and nobody
 * types them.)
 */
export function localAddresses(): string[] {
  const all = Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? []);
  return all.filter((a) => a.family === 'IPv4' && !a.internal).map((a) => a.address);
}

export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^(::ffff:)?127\./.test(host);
}

function isWildcard(host: string): boolean {
  return host === '0.0.0.0' || host === '::' || host === '';
}

/** What people can type to reach a server that listens on `host`: never empty, the best first. */
export function reachableHosts(host: string): string[] {
  if (isWildcard(host)) return [...localAddresses(), 'localhost'];
  return [host.includes(':') ? `[${host}]` : host];
}

/**
 * Whom a request came from. Behind a reverse proxy (`trustProxy`) it is the last of
 * X-Forwarded-For, the one address there that the proxy has seen itself; who sent the request could
 * have made up the others.
 */
export function clientAddress(req: IncomingMessage, trustProxy: boolean): string {
  const forwarded = trustProxy ? String(req.headers['x-forwarded-for'] ?? '') : '';
  const last = forwarded.split(',').at(-1)!.trim();
  return isIP(last) === 0 ? (req.socket.remoteAddress ?? '') : last.toLowerCase();
}

/** Groups of an IPv6 address, and how many of them name the network. */
const GROUPS = 8;
const NETWORK_GROUPS = 4;

/**
 * What limits per address count by: an IPv4 address, or an IPv6 address's /64, whose other half its
 * owner may choose anew for every connection. `address` is as the operating system writes it: lower
 * case, no leading zeros.
 */
export function networkOf(address: string): string {
  const ip = address.replace(/%.*$/, '').replace(/^::ffff:(?=\d+\.)/, '');
  if (!isIPv6(ip)) return ip;
  const [head = [], tail] = ip.split('::').map((part) => (part === '' ? [] : part.split(':')));
  const zeros = tail === undefined ? 0 : GROUPS - head.length - tail.length;
  const groups = [...head, ...Array<string>(zeros).fill('0'), ...(tail ?? [])];
  return `${groups.slice(0, NETWORK_GROUPS).join(':')}::/64`;
}

/**
 * The site that a network of {@link networkOf} belongs to: of IPv6 its /48, which is what providers
 * give to one customer.
 */
export function siteOf(network: string): string {
  return network.replace(/:[\da-f]*::\/64$/, '::/48');
}
