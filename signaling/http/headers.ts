/**
 * Headers that tell a browser what the server's pages may do: what the app needs, and nothing else.
 */
import type { IncomingMessage } from 'node:http';
import { isLoopback } from './address.ts';

/**
 * What may stand in a policy: a name or IPv4 address, and a port. (An IPv6 address has no place in
 * its grammar.)
 */
const HOST = /^[\w.-]+(:\d+)?$/;

/**
 * There is no Strict-Transport-Security here: it would bind every port of the host, for months, and
 * this server has no unencrypted twin to be lured to. Who has one on the host, a reverse proxy,
 * sends it.
 */
export function pageHeaders(req: IncomingMessage, isTls: boolean): Record<string, string> {
  const host = HOST.test(req.headers.host ?? '') ? req.headers.host! : null;
  return {
    'content-security-policy': contentSecurityPolicy(host, isTls),
    'referrer-policy': 'no-referrer',
    // The microphone is never asked for, but whom people let use it, Chromium lets connect over
    // every network interface: the launcher's tabs need that on machines without a network. The
    // display stays awake during a run.
    'permissions-policy': 'camera=(), geolocation=(), microphone=(self), payment=(), screen-wake-lock=(self), usb=()',
    'x-content-type-options': 'nosniff',
    // Elsewhere browsers ignore it, and say so as an error.
    ...(isTls || isLoopback(req.headers.host?.replace(/:\d+$/, '') ?? '')
      ? { 'cross-origin-opener-policy': 'same-origin' }
      : {}),
  };
}

function contentSecurityPolicy(host: string | null, isTls: boolean): string {
  // Safari before 15.4 does not count WebSockets of the page's own host as 'self'.
  const sockets = host === null ? '' : ` ws://${host} wss://${host}`;
  // A job may name data on any web server; from an https page browsers fetch over https only.
  const data = isTls ? ' https:' : ' https: http:';
  return [
    "default-src 'none'",
    // TensorFlow.js without a GPU is WebAssembly; this allows no other evaluation.
    "script-src 'self' 'wasm-unsafe-eval'",
    "worker-src 'self'",
    "style-src 'self'",
    "img-src 'self'",
    "font-src 'self'",
    `connect-src 'self'${sockets}${data}`,
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join('; ');
}
