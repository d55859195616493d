/** Options of a program that enters a room. */
import type { TransportName } from '../spec/job.ts';
import type { DeviceChoice } from './device.ts';

export interface RoomOptions {
  /**
   * Address of the signaling server, `https://host:port`. Default: the origin of the page. In this
   * case, the web server of the page must be the signaling server, or forward to it.
   */
  server?: string;
  /**
   * Code of the room to join. Default: the code in the fragment of the page's address (`#K7F3QX`,
   * in capitals). If there is no code, a room is opened, and its code becomes the fragment. Other
   * tabs that open this address then join the room. If `server` is passed and the page has a
   * fragment of its own, the fragment is kept. In this case, give other tabs the code that `onroom`
   * receives.
   */
  room?: string;
  /**
   * The number of ranks. A new room forms the group when this many ranks have joined. An existing
   * room refuses this rank if the room has a different world size.
   */
  worldSize?: number;
  /** The requested rank, as with torch's `env://`. Default: any free rank. */
  rank?: number;
  /** The name that other members see. */
  name?: string;
  /** Called with the room's code when the room has admitted this rank. */
  onroom?: (room: string) => void;
  /**
   * Called when ranks have entered or left the room. `present` is the number of ranks in the room,
   * and `worldSize` is the number of ranks with which the run begins. `worldSize` is `null` if the
   * host decides when the run begins.
   */
  onmembers?: (present: number, worldSize: number | null) => void;
  /**
   * How tabs of one browser are linked. With `auto` (the default), they are linked by a message
   * port if the browser supports it. With `webrtc`, they are linked by WebRTC, as tabs of different
   * browsers are. All ranks must pass the same value.
   */
  transport?: TransportName;
  /** Which device computes; see {@link DeviceChoice}. Default `auto`. */
  device?: DeviceChoice;
  /** When the signal is aborted, this rank stops waiting for other ranks and leaves the room. */
  signal?: AbortSignal;
}

/** Options whose server is known. */
export type LocatedRoom = RoomOptions & { server: string };
