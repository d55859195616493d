/** Headers that restrict the server's pages to what the app needs. */
import type { IncomingMessage } from 'node:http';
import { isLoopback } from './address.ts';

/**
 * A host that a policy can contain: a name or IPv4 address, and a port. (The grammar has no IPv6
 * addresses.)
 */
const HOST = /^[\w.-]+(:\d+)?$/;

/**
 * Security headers of a page. There is no Strict-Transport-Security: it would apply to every port
 * of the host, for months, and this server has no unencrypted twin. A reverse proxy that has one
 * can send it.
 */
export function pageHeaders(req: IncomingMessage, isTls: boolean): Record<string, string> {
  const host = HOST.test(req.headers.host ?? '') ? req.headers.host! : null;
  return {
    'content-security-policy': contentSecurityPolicy(host, isTls),
    'referrer-policy': 'no-referrer',
    // The page never uses the microphone, but Chromium lets pages that may use it connect over
    // every network interface: the launcher's tabs need that on machines without a network. The
    // wake lock keeps the display on during a run.
    'permissions-policy': 'camera=(), geolocation=(), microphone=(self), payment=(), screen-wake-lock=(self), usb=()',
    'x-content-type-options': 'nosniff',
    // On other origins browsers ignore it and log an error.
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
    // TensorFlow.js without a GPU uses WebAssembly; this allows no other evaluation.
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
