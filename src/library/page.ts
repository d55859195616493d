/**
 * The parts of a page that the library needs: connections, which only pages can open, and the
 * page's address. A program in a worker uses the page that hosts the worker.
 */
import type { PeerConnector } from '../engine/membership/generationLinkOptions.ts';
import type { RequestTabPort } from '../transport/broker.ts';

export interface ProgramPageAccess {
  /** The address of the page. `null` if the program has no page. */
  readonly address: PageAddress | null;
  readonly connectPeer: PeerConnector;
  readonly requestTabPort: RequestTabPort;
  /** Dispatches `pagehide` when the page is being closed. */
  readonly leaving: Pick<EventTarget, 'addEventListener' | 'removeEventListener'>;
  /**
   * Writes the room's code into the page's address. Other tabs that open this address join the
   * room.
   */
  readonly writeRoom: (room: string) => void;
}

/** The address of a page. In a worker, `location` is the address of the worker's script. */
export interface PageAddress {
  origin: string;
  /**
   * The fragment, including `#`. In a worker, this is the fragment at the time when the page began
   * to host the worker.
   */
  hash: string;
}

/** Writes the code into the address of this page. */
export function writeRoomToAddress(room: string): void {
  history.replaceState(null, '', `#${room}`);
}
