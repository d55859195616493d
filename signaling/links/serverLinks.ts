/**
 * Links through the server, for members that cannot connect by WebRTC. Each end of a link is a
 * WebSocket of its own. It begins with a {@link ServerLinkOpening}, which is checked here. When
 * both ends have arrived, they are a {@link PairedLink}. If several processes serve the same rooms,
 * the other end may arrive in another process.
 */
import type { Logger } from 'pino';
import { type RawData, WebSocket } from 'ws';
import { parseControlMessage } from '../../src/protocol/control.ts';
import { ServerLinkOpening, type ServerLinkAnswer } from '../../src/protocol/serverLink.ts';
import type { Clock } from '../../src/util/clock.ts';
import { errorMessageOf } from '../../src/util/errors.ts';
import { CLOSE_NORMAL, CLOSE_POLICY, CLOSE_RESTART } from '../connection.ts';
import type { Credentials } from '../credentials.ts';
import type { Limits } from '../limits.ts';
import { outlineOf } from '../monitoring/errorOutline.ts';
import type { LinkRefusal, Metrics } from '../monitoring/metrics.ts';
import type { RoomLog } from '../monitoring/roomLog.ts';
import { PairedLink, type LinkContext, type LinkSocket } from './pairedLink.ts';
import type { SharedRate } from './sharedRate.ts';

/** Identifies an end of a link. At the other end, `member` and `peer` are exchanged. */
export type LinkPlace = Omit<ServerLinkOpening, 'version' | 'token'>;

/** The end of a link in another process. */
export interface RemoteSocket extends LinkSocket {
  /** Called when the other process has ended the link, or cannot be reached. */
  onend: (code: number, why: string) => void;
}

interface ServerLinksOptions {
  clock: Clock;
  limits: Limits;
  credentials: Credentials;
  log: Logger;
  roomLog: RoomLog;
  metrics: Metrics;
  rate: SharedRate;
  /** Returns why the room does not link the two members, or `null` if it does. */
  refusalOf: (opening: ServerLinkOpening) => string | null | Promise<string | null>;
  /**
   * Tells other processes that an end waits here. Returns the number by which they know it. Their
   * answer arrives as a call of {@link ServerLinks.join}.
   */
  announce: (place: LinkPlace) => number;
}

/** One WebSocket. */
interface LinkEnd {
  readonly socket: WebSocket;
  /** `null` until the first message has been checked. */
  opening: ServerLinkOpening | null;
  /** The number by which other processes know an end that waits. */
  number: number;
  /** `null` until the other end has arrived. */
  link: PairedLink | null;
  isOver: boolean;
  /** Cancels the deadline of what the end waits for. */
  cancel: () => void;
  /** Removes the listeners that an end without a link has. */
  unlisten: () => void;
}

export class ServerLinks {
  readonly #options: ServerLinksOptions;
  readonly #context: LinkContext;
  readonly #sockets = new Set<WebSocket>();
  readonly #links = new Set<PairedLink>();
  /** Ends that wait for the other end, by {@link keyOf}. */
  readonly #alone = new Map<string, LinkEnd>();
  /** Ends with a valid token that are not over, by room and by member. */
  readonly #rooms = new Map<string, Map<string, Set<LinkEnd>>>();
  /** Ends that have sent no valid token. */
  readonly #unknown = new Set<LinkEnd>();
  #isShedding = false;

  constructor(options: ServerLinksOptions) {
    this.#options = options;
    const { clock, limits, metrics, rate } = options;
    this.#context = { clock, limits, metrics, rate, backlog: { bytes: 0 }, shed: () => this.#shed() };
  }

  /** Number of links of which both ends have arrived. */
  get count(): number {
    return this.#links.size;
  }

  /** Takes a WebSocket that has just opened. */
  accept(socket: WebSocket): void {
    const { limits } = this.#options;
    const onMessage = (data: RawData, isBinary: boolean): void => this.#onMessage(end, data as Buffer, isBinary);
    const onEarly = (): void => this.#refuse(end, 'bad-message', 'A ping or a pong arrived before the link was open.');
    const cancel = this.#after(limits.linkOpeningMs, () =>
      this.#refuse(end, 'silent', `No first message arrived within ${limits.linkOpeningMs / 1000} s.`),
    );
    const unlisten = (): void => void socket.off('message', onMessage).off('ping', onEarly).off('pong', onEarly);
    const end: LinkEnd = { socket, opening: null, number: 0, link: null, isOver: false, cancel, unlisten };
    this.#sockets.add(socket);
    this.#unknown.add(end);
    socket.on('message', onMessage).on('ping', onEarly).on('pong', onEarly);
    // Without a listener, an oversized message or a reset connection would end the process. The
    // `close` event follows.
    socket.on('error', () => {});
    socket.on('close', () => {
      this.#sockets.delete(socket);
      this.#forget(end);
    });
  }

  /** Ends the links of a member that is no longer in the room. */
  closeMember(room: string, member: string): void {
    const ends = this.#rooms.get(room)?.get(member) ?? [];
    for (const end of ends) this.#close(end, 'left', CLOSE_NORMAL, 'A member of the link is no longer in the room.');
  }

  /**
   * Pairs the end that waits here for the end `place` of another process. Returns whether such an
   * end waits here.
   * @param connect returns the other end. Its argument is the number of the end that waits.
   */
  join(place: LinkPlace, connect: (number: number) => RemoteSocket): boolean {
    const end = this.#alone.get(keyOf(place));
    if (end?.opening?.member !== place.peer || end.socket.readyState !== WebSocket.OPEN) return false;
    const remote = connect(end.number);
    const link = this.#pair([end], [end.socket, remote], end.opening);
    remote.onend = (code, why) => link.end(code, why);
    return true;
  }

  /** Ends all links. */
  close(): void {
    const known = [...this.#rooms.values()].flatMap((members) => [...members.values()].flatMap((ends) => [...ends]));
    for (const end of [...this.#unknown, ...known]) {
      this.#close(end, 'server-closing', CLOSE_RESTART, 'The server is closing.');
    }
  }

  /** Destroys WebSockets whose closing handshake takes too long. */
  terminate(): void {
    for (const socket of this.#sockets) socket.terminate();
  }

  #after(ms: number, fn: () => void): () => void {
    return this.#options.clock.after(ms, fn);
  }

  #onMessage(end: LinkEnd, data: Buffer, isBinary: boolean): void {
    if (end.isOver) return;
    if (end.opening !== null) return this.#refuse(end, 'bad-message', 'A message arrived before the link was open.');
    if (isBinary) return this.#refuse(end, 'bad-message', 'The first message was binary; it must be text.');
    let opening: ServerLinkOpening;
    try {
      opening = parseControlMessage(ServerLinkOpening, data.toString('utf8'));
    } catch (error) {
      return this.#refuse(end, 'bad-message', `${errorMessageOf(error)} Reload the page.`);
    }
    this.#open(end, opening);
  }

  #open(end: LinkEnd, opening: ServerLinkOpening): void {
    const { credentials, limits } = this.#options;
    const { room, member, token } = opening;
    end.cancel();
    end.cancel = this.#after(limits.linkOpeningMs, () =>
      this.#refuse(end, 'alone', `The other end of the link did not arrive within ${limits.linkOpeningMs / 1000} s.`),
    );
    if (!credentials.isToken(token, room, member)) {
      return this.#refuse(end, 'bad-token', 'The token of this link is not valid. Reload the page.');
    }
    const members = this.#rooms.get(room) ?? new Map<string, Set<LinkEnd>>();
    const ends = members.get(member) ?? new Set();
    if (ends.size >= limits.linksPerMember) {
      return this.#refuse(end, 'too-many', `This tab has ${ends.size} links through the server already.`);
    }
    const toPeer = [...ends].filter((one) => one.opening?.peer === opening.peer).length;
    if (toPeer >= limits.linksPerPair) {
      return this.#refuse(end, 'too-many', `This tab has ${toPeer} links through the server to the same tab already.`);
    }
    // From now on the link ends if the member leaves, also while its room is asked.
    end.opening = opening;
    this.#unknown.delete(end);
    this.#rooms.set(room, members.set(member, ends.add(end)));
    void this.#enter(end, opening);
  }

  /** Asks the room, then waits for the other end. */
  async #enter(end: LinkEnd, opening: ServerLinkOpening): Promise<void> {
    const { log, refusalOf, announce } = this.#options;
    let refusal: string | null;
    try {
      refusal = await refusalOf(opening);
    } catch (error) {
      log.error(outlineOf(error), 'room not asked about a link');
      refusal = `The room of the link cannot be asked: ${errorMessageOf(error)}`;
    }
    if (end.isOver) return;
    if (refusal !== null) return this.#refuse(end, 'not-allowed', refusal);
    const key = keyOf(opening);
    const other = this.#alone.get(key);
    const isPair = other?.socket.readyState === WebSocket.OPEN && other.opening?.member !== opening.member;
    if (other !== undefined && isPair) return void this.#pair([other, end], [other.socket, end.socket], opening);
    // The same end has opened another connection, so the earlier one has probably broken.
    if (other !== undefined) this.#refuse(other, 'replaced', 'This end of the link has opened another connection.');
    this.#alone.set(key, end);
    end.number = announce(opening);
  }

  /** @param ends the ends in this process. */
  #pair(ends: readonly LinkEnd[], sockets: [LinkSocket, LinkSocket], opening: ServerLinkOpening): PairedLink {
    const { log, roomLog } = this.#options;
    const { room, member, peer } = opening;
    const about = { room: roomLog.nameOf(room), member, peer };
    this.#alone.delete(keyOf(opening));
    for (const end of ends) {
      end.cancel();
      end.unlisten();
      end.socket.send(JSON.stringify({ type: 'paired' } satisfies ServerLinkAnswer));
    }
    const link = new PairedLink(room, sockets, this.#context, (why) => {
      this.#links.delete(link);
      for (const end of ends) this.#forget(end);
      log.info({ ...about, why }, 'link ended');
    });
    for (const end of ends) end.link = link;
    this.#links.add(link);
    log.info(about, 'link opened');
    return link;
  }

  #refuse(end: LinkEnd, reason: LinkRefusal, message: string, code = CLOSE_POLICY): void {
    if (end.isOver) return;
    const { log, metrics } = this.#options;
    metrics.linkRefused(reason);
    log.info({ member: end.opening?.member, reason }, 'link refused');
    end.socket.send(JSON.stringify({ type: 'refused', message } satisfies ServerLinkAnswer));
    this.#forget(end);
    end.socket.close(code, reason);
  }

  #close(end: LinkEnd, reason: LinkRefusal, code: number, message: string): void {
    if (end.link === null) this.#refuse(end, reason, message, code);
    else end.link.end(code, message);
  }

  #forget(end: LinkEnd): void {
    if (end.isOver) return;
    end.isOver = true;
    end.cancel();
    this.#unknown.delete(end);
    if (end.opening === null) return;
    const { room, member } = end.opening;
    const members = this.#rooms.get(room)!;
    const ends = members.get(member)!;
    ends.delete(end);
    if (ends.size === 0) members.delete(member);
    if (members.size === 0) this.#rooms.delete(room);
    const key = keyOf(end.opening);
    if (this.#alone.get(key) === end) this.#alone.delete(key);
  }

  /**
   * Ends the link with the most waiting bytes. Ends at most one link in a turn of the event loop,
   * because the link's bytes are dropped only after the turn.
   */
  #shed(): void {
    if (this.#isShedding) return;
    this.#isShedding = true;
    setImmediate(() => {
      this.#isShedding = false;
      const [largest] = [...this.#links].sort((a, b) => b.waiting - a.waiting);
      largest?.terminate('All links together had too much unsent data, and this one had the most.');
    });
  }
}

/** Returns the same text for the two ends of a link, and for no other end. */
function keyOf({ room, generation, channel, member, peer }: LinkPlace): string {
  return [room, generation, channel, ...[member, peer].sort()].join(' ');
}
