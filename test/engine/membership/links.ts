/** Links that intercept frames. */
import type { Link } from '../../../src/transport/link.ts';

/** Returns `link` with another `send`, and with a filter for received frames. */
export function wrap(
  link: Link,
  {
    send,
    receive = (frame, handler) => handler(frame),
  }: {
    send: Link['send'];
    receive?: (frame: ArrayBuffer, handler: (frame: ArrayBuffer) => void) => void;
  },
): Link {
  return {
    send,
    get onframe() {
      return link.onframe;
    },
    set onframe(handler) {
      link.onframe = handler && ((frame) => receive(frame, handler));
    },
    get onclose() {
      return link.onclose;
    },
    set onclose(handler) {
      link.onclose = handler;
    },
    get state() {
      return link.state;
    },
    get counters() {
      return link.counters;
    },
    describe: () => link.describe(),
    close: () => link.close(),
  };
}
