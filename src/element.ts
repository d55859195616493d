/**
 * The element `<peergrad-room>`, which shows how other tabs join and how many are present:
 *
 *     import { PeergradRoom } from 'peergrad/element';
 *
 *     const { handlers } = document.body.appendChild(new PeergradRoom());
 *     const group = await initProcessGroup({ worldSize: 4, ...handlers });
 *
 * The import defines the element. Without a document, for example on a server that renders the
 * page, it defines nothing.
 *
 * @module peergrad/element
 */
import { PeergradRoom, ROOM_ELEMENT_TAG } from './library/element/peergradRoom.ts';

export { PeergradRoom, type RoomHandlers } from './library/element/peergradRoom.ts';

// Two copies of this module may be on one page. The first defines the element.
if (globalThis.customElements?.get(ROOM_ELEMENT_TAG) === undefined)
  globalThis.customElements?.define(ROOM_ELEMENT_TAG, PeergradRoom);
