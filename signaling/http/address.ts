/** Addresses of this machine and of clients. */
import type { IncomingMessage } from 'node:http';
import { isIP, isIPv6 } from 'node:net';
import { networkInterfaces } from 'node:os';

/**
 * Returns the IPv4 addresses of this machine without the loopback address. (IPv6 addresses change
 * often, and are hard to type.)
 */
export function localAddresses(): string[] {
  const all = Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? []);
  return all.filter((a) => a.family === 'IPv4' && !a.internal).map((a) => a.address);
}

export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || host === '[::1]' || /^(::ffff:)?127\./.test(host);
}

function isWildcard(host: string): boolean {
  return host === '0.0.0.0' || host === '::' || host === '';
}

/**
 * Returns the hosts under which a server that listens on `host` can be reached. The list is never
 * empty, and its best host is first: over http, browsers offer WebGPU on `localhost` only.
 */
export function reachableHosts(host: string, isSecure: boolean): string[] {
  if (isWildcard(host)) return isSecure ? [...localAddresses(), 'localhost'] : ['localhost', ...localAddresses()];
  return [host.includes(':') ? `[${host}]` : host];
}

/**
 * Returns the address of a request's sender. Behind a reverse proxy (`trustProxy`), this is the
 * last address in X-Forwarded-For. Only that address was seen by the proxy itself; the sender could
 * have invented the others.
 */
export function clientAddress(req: IncomingMessage, trustProxy: boolean): string {
  const forwarded = trustProxy ? String(req.headers['x-forwarded-for'] ?? '') : '';
  const last = forwarded.split(',').at(-1)!.trim();
  return isIP(last) === 0 ? (req.socket.remoteAddress ?? '') : last.toLowerCase();
}

/** Number of groups of an IPv6 address. */
const GROUPS = 8;
/** Number of groups that identify the network. */
const NETWORK_GROUPS = 4;

/**
 * Returns the key of limits per address. For IPv4 the key is the address. For IPv6 it is the /64
 * network, because the owner of a /64 can use another address in it for every connection.
 * @param address as the operating system writes it: lower case, without leading zeros.
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
 * Returns the site of a network that {@link networkOf} returned. For IPv6 this is the /48, which
 * providers assign to one customer.
 */
export function siteOf(network: string): string {
  return network.replace(/:[\da-f]*::\/64$/, '::/48');
}
