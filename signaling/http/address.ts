/** Addresses of this machine and of clients. */
import type { IncomingMessage } from 'node:http';
import { isIP, isIPv6 } from 'node:net';
import { networkInterfaces } from 'node:os';

/**
 * IPv4 addresses of this machine, loopback excluded. (Its IPv6 addresses change daily, and are
 * hard to type.)
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

/** Hosts by which a server that listens on `host` can be reached: never empty, the best first. */
export function reachableHosts(host: string): string[] {
  if (isWildcard(host)) return [...localAddresses(), 'localhost'];
  return [host.includes(':') ? `[${host}]` : host];
}

/**
 * The address of a request's sender. Behind a reverse proxy (`trustProxy`) it is the last one of
 * X-Forwarded-For, the only one that the proxy has seen itself; the sender could have invented the
 * others.
 */
export function clientAddress(req: IncomingMessage, trustProxy: boolean): string {
  const forwarded = trustProxy ? String(req.headers['x-forwarded-for'] ?? '') : '';
  const last = forwarded.split(',').at(-1)!.trim();
  return isIP(last) === 0 ? (req.socket.remoteAddress ?? '') : last.toLowerCase();
}

/** Groups of an IPv6 address, and the number of them that identifies the network. */
const GROUPS = 8;
const NETWORK_GROUPS = 4;

/**
 * The key of limits per address: an IPv4 address, or an IPv6 address's /64, whose other half its
 * owner can change for every connection. `address` is as the operating system writes it: lower
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
 * The site of a network of {@link networkOf}: for IPv6 its /48, which providers assign to one
 * customer.
 */
export function siteOf(network: string): string {
  return network.replace(/:[\da-f]*::\/64$/, '::/48');
}
