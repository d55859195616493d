/**
 * Returns the URL of the WebSocket at `path` of the server with the URL `server`
 * (`https://host:port`). If the server's page is secure, the WebSocket is secure, too.
 */
export function socketUrl(path: string, server: string): URL {
  const url = new URL(path, server);
  url.protocol = url.protocol === 'https:' ? 'wss:' : 'ws:';
  return url;
}
