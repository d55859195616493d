/** Returns whether a link with this host name works on this machine only. */
export function isLocalOnlyHost(hostname: string): boolean {
  return (
    hostname === 'localhost' || hostname.endsWith('.localhost') || hostname === '[::1]' || hostname.startsWith('127.')
  );
}
