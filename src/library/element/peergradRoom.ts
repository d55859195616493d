/**
 * `<peergrad-room>`: shows a room's code, its link, the link as a QR code, and how many ranks are
 * present. It shows only what `onroom`, `onmembers` and `onprogress` report, and uses nothing else
 * of the library.
 */
import { formatRoomCode } from '../../protocol/roomCode.ts';
import { isLocalOnlyHost } from '../../util/localHost.ts';
import { qrCodeOf } from '../../util/qrCode.ts';
import type { ElasticOptions } from '../elastic/elasticJob.ts';
import { createRoomElementParts, type RoomElementParts } from './parts.ts';
import { roomElementTextsIn, type PeergradRoomTexts } from './texts.ts';

export const ROOM_ELEMENT_TAG = 'peergrad-room';

declare global {
  interface HTMLElementTagNameMap {
    [ROOM_ELEMENT_TAG]: PeergradRoom;
  }
}

/**
 * Options of `initProcessGroup`, `elastic` and `Trainer` that show their room in the element.
 * `onprogress` is an option of `elastic`.
 */
export type RoomHandlers = Required<Pick<ElasticOptions, 'onroom' | 'onmembers' | 'onprogress'>>;

/** Servers and workers may import this module, but they have no `HTMLElement`. */
const Base =
  (globalThis as { HTMLElement?: typeof HTMLElement }).HTMLElement ?? (Object as unknown as typeof HTMLElement);

/**
 * Shows how other tabs join. Before the room is known, it says that the page connects. When all
 * ranks are present, it shrinks to one line, which a click expands. An error of the library that
 * the page does not catch is shown, too. The texts of the element are English or Chinese, depending
 * on the nearest attribute `lang`.
 *
 * Each property is also an attribute. If a worker trains, its page sets the properties when it
 * receives the worker's messages. Colours follow the page's `color` and `color-scheme`. Other
 * styles can select the parts `status`, `progress`, `error`, `code`, `link`, `copy`, `note` and
 * `qr`.
 */
export class PeergradRoom extends Base {
  static readonly observedAttributes = ['room', 'link', 'present', 'world-size', 'received', 'error', 'lang'];

  /** Options of `initProcessGroup`, `elastic` and `Trainer`; see {@link RoomHandlers}. */
  readonly handlers: RoomHandlers = {
    onroom: (room) => {
      this.error = null;
      this.room = room;
    },
    onmembers: (present, worldSize) => {
      this.worldSize = worldSize;
      this.present = present;
    },
    onprogress: (received, total) => {
      this.received = received < total ? received / total : null;
    },
  };

  readonly #parts: RoomElementParts;
  /** Whether all ranks have ever been present at the same time. */
  #isComplete = false;
  readonly #onerror = (event: ErrorEvent | PromiseRejectionEvent): void => {
    const error: unknown = 'reason' in event ? event.reason : event.error;
    // `instanceof PeergradError` is not used, because the page may have another copy of the
    // library, with error classes of its own.
    if (error instanceof Error && 'context' in error) this.error = error.message;
  };

  constructor() {
    super();
    this.#parts = createRoomElementParts(this.attachShadow({ mode: 'open' }));
    this.#parts.copy.addEventListener('click', () => void this.#copy());
    this.#parts.copy.addEventListener('focusout', () => this.#render());
  }

  connectedCallback(): void {
    globalThis.addEventListener('error', this.#onerror);
    globalThis.addEventListener('unhandledrejection', this.#onerror);
    this.#render();
  }

  disconnectedCallback(): void {
    globalThis.removeEventListener('error', this.#onerror);
    globalThis.removeEventListener('unhandledrejection', this.#onerror);
  }

  attributeChangedCallback(): void {
    this.#render();
  }

  /** The room's code. `null` (the default) if it is not known yet. */
  get room(): string | null {
    return this.getAttribute('room');
  }

  set room(room: string | null) {
    this.#set('room', room);
  }

  /**
   * The link that other tabs open. Default: the page's address with the room's code as its
   * fragment, from which `initProcessGroup` reads the code; `null` if the room is not known.
   */
  get link(): string | null {
    const { room } = this;
    return this.getAttribute('link') ?? (room === null ? null : `${location.href.split('#', 1)[0]}#${room}`);
  }

  set link(link: string | null) {
    this.#set('link', link);
  }

  /** Number of ranks that are present. */
  get present(): number {
    return Number(this.getAttribute('present'));
  }

  set present(present: number) {
    this.#set('present', `${present}`);
  }

  /** The number of ranks with which training begins. `null` (the default) if it is not known. */
  get worldSize(): number | null {
    const worldSize = this.getAttribute('world-size');
    return worldSize === null ? null : Number(worldSize);
  }

  set worldSize(worldSize: number | null) {
    this.#set('world-size', worldSize === null ? null : `${worldSize}`);
  }

  /**
   * The fraction of an elastic job's state that this newcomer has received, from 0 to 1. `null`
   * (the default) if it is not receiving a state.
   */
  get received(): number | null {
    const received = this.getAttribute('received');
    return received === null ? null : Number(received);
  }

  set received(received: number | null) {
    this.#set('received', received === null ? null : `${received}`);
  }

  /** The message of an error. `null` (the default) if there is no error. */
  get error(): string | null {
    return this.getAttribute('error');
  }

  set error(message: string | null) {
    this.#set('error', message);
  }

  get #texts(): PeergradRoomTexts {
    return roomElementTextsIn(this.closest('[lang]')?.getAttribute('lang') ?? navigator.language);
  }

  #set(name: string, value: string | null): void {
    if (value === null) this.removeAttribute(name);
    else this.setAttribute(name, value);
  }

  #render(): void {
    const { room, link, present, worldSize, received, error } = this;
    const { region, status, progress, alert, invitation, code, address, copied, note, qr, ink } = this.#parts;
    const texts = this.#texts;
    const name = room === null ? '' : formatRoomCode(room);
    region.ariaLabel = `${texts.region} ${name}`.trim();
    const isKnown = room !== null && present > 0;
    status.textContent = isKnown ? texts.present(present, worldSize) : error === null ? texts.connecting : '';
    progress.textContent = received === null ? '' : texts.receiving(Math.floor(100 * received));
    alert.textContent = error;
    invitation.hidden = room === null;
    code.textContent = name;
    copied.textContent = texts.copy;
    if (link !== null && link !== address.textContent) {
      address.href = address.textContent = link;
      const { size, path } = qrCodeOf(link);
      qr.setAttribute('viewBox', `0 0 ${size} ${size}`);
      ink.setAttribute('d', path);
    }
    qr.ariaLabel = texts.qr(link ?? '');
    note.textContent = link !== null && isLocalOnlyHost(new URL(link, location.href).hostname) ? texts.localOnly : '';
    const isComplete = worldSize !== null && present >= worldSize;
    if (isComplete && !this.#isComplete) invitation.open = false;
    this.#isComplete ||= isComplete;
  }

  async #copy(): Promise<void> {
    const { address, copied } = this.#parts;
    const texts = this.#texts;
    try {
      await navigator.clipboard.writeText(address.href);
      copied.textContent = texts.copied;
    } catch {
      // The clipboard is available only on a secure page, and with permission.
      getSelection()?.selectAllChildren(address);
      copied.textContent = texts.copyByHand;
    }
  }
}
