/** Reads the room's code from the address of a page, such as `https://host/page#K7F3QX`. */
import { parseRoomCode } from '../protocol/roomCode.ts';
import { UsageError } from '../util/errors.ts';
import type { ProgramPageAccess } from './page.ts';
import type { LocatedRoom, RoomOptions } from './roomOptions.ts';

/**
 * Returns the room code in the fragment of an address, or `undefined` without a code. The code must
 * be in capitals, as peergrad writes it, because a fragment such as `#header` may be an anchor.
 */
export function roomCodeInAddress(hash: string): string | undefined {
  const code = hash.slice(1);
  return parseRoomCode(code) === code ? code : undefined;
}

/**
 * Completes options with the server and the room code of the page's address. If there is no code,
 * the code of the opened room is written into the address. But if the program passes `server`, an
 * existing fragment is kept, because the page may use it for another purpose, such as a route.
 *
 * @throws UsageError if no server is given and the program has no page, or if the server's address
 *   is not an http or ws address.
 */
export function completeFromPageAddress<T extends RoomOptions>(
  options: T,
  { address, writeRoom }: Pick<ProgramPageAccess, 'address' | 'writeRoom'>,
): T & LocatedRoom {
  const server = options.server ?? address?.origin;
  if (server === undefined) {
    throw new UsageError('The server is unknown, because this program has no page. Pass server.');
  }
  if (!isServer(server))
    throw new UsageError(`"${server}" is not the address of a server. Pass one such as http://localhost:8080.`);
  const room = options.room ?? roomCodeInAddress(address?.hash ?? '');
  const isWritten = room === undefined && (options.server === undefined || address?.hash === '');
  return {
    ...options,
    server,
    ...(room !== undefined && { room }),
    onroom: (code: string) => {
      if (isWritten) writeRoom(code);
      options.onroom?.(code);
    },
  };
}

/**
 * Returns whether a text is the address of a server. The scheme is checked because `localhost:8080`
 * is a valid URL with the scheme `localhost:`.
 */
function isServer(text: string): boolean {
  return URL.canParse(text) && /^(http|ws)s?:$/.test(new URL(text).protocol);
}
