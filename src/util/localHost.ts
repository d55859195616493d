/** Returns whether a link with this host name only works on this machine. */
export function isLocalOnly(hostname: string): boolean {
  return (
    hostname === 'localhost' || hostname.endsWith('.localhost') || hostname === '[::1]' || hostname.startsWith('127.')
  );
}
