/** Headers that restrict the server's pages to what the app needs. */
import type { IncomingMessage } from 'node:http';
import { isLoopback } from './address.ts';

/**
 * Matches a host that a Content-Security-Policy can contain: a name or an IPv4 address, and a port.
 * (The grammar of the policy has no IPv6 addresses.)
 */
const HOST = /^[\w.-]+(:\d+)?$/;

/**
 * Returns the security headers of a page. Strict-Transport-Security is not among them. With it,
 * browsers would use https for every port of the host for months, but this server has no http port
 * that redirects to https. A reverse proxy that has such a port can add the header.
 *
 * @param isSecure whether the browser loads the page over https.
 */
export function pageHeaders(req: IncomingMessage, isSecure: boolean): Record<string, string> {
  const host = HOST.test(req.headers.host ?? '') ? req.headers.host! : null;
  return {
    'content-security-policy': contentSecurityPolicy(host, isSecure),
    'referrer-policy': 'no-referrer',
    // The page never uses the microphone. But Chromium uses all network interfaces for WebRTC only
    // if the page may use the microphone. On machines without a network, the launcher's tabs need
    // this permission to connect. The wake lock keeps the display on during a run.
    'permissions-policy': 'camera=(), geolocation=(), microphone=(self), payment=(), screen-wake-lock=(self), usb=()',
    'x-content-type-options': 'nosniff',
    // Both policies together isolate the page, so that WebAssembly may have threads. An isolated
    // page refuses worker scripts that came without the embedder's policy, also from the browser's
    // cache. So all files have it, even before a proxy sets X-Forwarded-Proto. Over plain http,
    // browsers ignore both policies, but log an error about the opener's policy.
    'cross-origin-embedder-policy': 'require-corp',
    ...(isSecure || isLoopback(req.headers.host?.replace(/:\d+$/, '') ?? '')
      ? { 'cross-origin-opener-policy': 'same-origin' }
      : {}),
  };
}

function contentSecurityPolicy(host: string | null, isSecure: boolean): string {
  // In Safari before 15.4, 'self' does not include WebSockets of the page's own host, so they are
  // added.
  const sockets = host === null ? '' : ` ws://${host} wss://${host}`;
  // A job may load data from any web server. A page over https can fetch data over https only.
  const data = isSecure ? ' https:' : ' https: http:';
  return [
    "default-src 'none'",
    // TensorFlow.js uses WebAssembly if there is no GPU. 'wasm-unsafe-eval' allows WebAssembly, but
    // not eval().
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
