/**
 * Decides for which host names the server answers requests. A page of another site can let its own
 * name resolve to this machine (DNS rebinding). The browser then takes this server for a part of
 * that site, and lets the page read every answer. But the Host header of such a request still has
 * the name of the site.
 */
import { X509Certificate } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { isIP } from 'node:net';
import { hostname, networkInterfaces } from 'node:os';
import { isLoopback } from './address.ts';
import type { Certificate } from './tls.ts';

interface HostOptions {
  /** Name or address on which the server listens. */
  host: string;
  tls: Certificate | null;
  /** Valid origins whose pages may connect. Their hosts are also names of the server. */
  origins: readonly string[];
  /** Whether a reverse proxy forwards requests, so that browsers use https. */
  trustProxy: boolean;
}

/** Maximum number of characters of a host in messages. */
const MAX_SHOWN = 200;

export class AnsweredHosts {
  readonly #names: ReadonlySet<string | null>;
  readonly #certificate: X509Certificate | null;
  readonly #scheme: 'http' | 'https';

  constructor({ host, tls, origins, trustProxy }: HostOptions) {
    const [machine] = hostname().split('.', 1);
    const own = [hostname(), machine!, `${machine}.local`, host.includes(':') ? `[${host}]` : host];
    this.#names = new Set([...own.map(nameOf), ...origins.map((origin) => nameOf(new URL(origin).host))]);
    this.#certificate = tls && new X509Certificate(tls.cert);
    this.#scheme = tls !== null || trustProxy ? 'https' : 'http';
  }

  /** Returns why the server refuses a request; `null` if it answers. */
  refusalOf({ headers: { host = '' } }: IncomingMessage): string | null {
    const name = nameOf(host);
    if (name === null) return 'The request has no valid Host header.';
    if (this.#includes(name)) return null;
    return (
      `This server does not answer to the host ${host.slice(0, MAX_SHOWN)}. ` +
      `If it is a name of this server, start the server with --origin ${this.#scheme}://${host.slice(0, MAX_SHOWN)}.`
    );
  }

  #includes(name: string): boolean {
    if (this.#names.has(name) || /(^|\.)localhost$/.test(name)) return true;
    if (isIP(name) === 0) return this.#certificate?.checkHost(name) !== undefined;
    // This machine's addresses may change while the server runs, so they are read for each request.
    return isLoopback(name) || isOfThisMachine(name) || this.#certificate?.checkIP(name) !== undefined;
  }
}

function isOfThisMachine(address: string): boolean {
  return Object.values(networkInterfaces()).some((all) => all?.some((own) => own.address === address));
}

/**
 * Returns the name or address in a Host header as browsers write it: lower case, without port,
 * brackets and the dot of the root; `null` without a host.
 */
function nameOf(host: string): string | null {
  if (/[\s/?#@\\]/.test(host) || !URL.canParse(`http://${host}`)) return null;
  const name = new URL(`http://${host}`).hostname.replace(/\.$/, '').replaceAll(/[[\]]/g, '');
  const mapped = /^::ffff:([\da-f]{1,4}):([\da-f]{1,4})$/.exec(name);
  if (!mapped) return name;
  const bytes = mapped.slice(1).flatMap((group) => [parseInt(group, 16) >> 8, parseInt(group, 16) & 255]);
  return bytes.join('.');
}
