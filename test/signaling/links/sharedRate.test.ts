import { describe, expect, test } from 'vitest';
import { SharedRate } from '../../../signaling/links/sharedRate.ts';
import { ManualClock } from '../../manualClock.ts';

const KIB = 1024;
const RATE = 10e6;

/** A direction that always has messages of `bytes` to send, and sends whenever it may. */
class Greedy {
  sent = 0;
  readonly #rate: SharedRate;
  readonly #share;
  readonly #bytes: number;

  constructor(rate: SharedRate, room: string, bytes = 64 * KIB) {
    this.#rate = rate;
    this.#bytes = bytes;
    this.#share = rate.join(room, () => this.send());
  }

  send(): void {
    do this.sent += this.#bytes;
    while (this.#rate.take(this.#share, this.#bytes));
  }

  leave(): void {
    this.#rate.leave(this.#share);
  }
}

function world(bytesPerSecond = RATE) {
  const clock = new ManualClock();
  return { clock, rate: new SharedRate(clock, bytesPerSecond) };
}

/** Lets directions send for some seconds; returns the megabytes that each has sent meanwhile. */
function during(clock: ManualClock, seconds: number, directions: readonly Greedy[]): number[] {
  const before = directions.map(({ sent }) => sent);
  clock.advance(seconds * 1000);
  return directions.map(({ sent }, i) => (sent - before[i]!) / 1e6);
}

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);

describe('the rate of all links', () => {
  test('is never exceeded, and is fully used, however many directions there are', () => {
    for (const count of [1, 2, 40]) {
      const { clock, rate } = world();
      const directions = Array.from({ length: count }, (_, i) => new Greedy(rate, `room ${i % 3}`));
      for (const one of directions) one.send();
      expect(sum(during(clock, 10, directions)), `${count} directions`).toBeCloseTo(100, -1);
    }
  });

  test('is divided equally between two rooms, whatever the number of their links', () => {
    const { clock, rate } = world();
    const many = Array.from({ length: 9 }, () => new Greedy(rate, 'many'));
    const one = new Greedy(rate, 'one');
    for (const each of [...many, one]) each.send();
    const sent = during(clock, 10, [...many, one]);
    expect(sent.at(-1)! / sum(sent.slice(0, -1))).toBeCloseTo(1, 1);
  });

  test('is divided equally between the links of a room, whatever the size of their messages', () => {
    const { clock, rate } = world();
    const [large, small] = [new Greedy(rate, 'room'), new Greedy(rate, 'room', 2 * KIB)];
    for (const each of [large, small]) each.send();
    const [ofLarge, ofSmall] = during(clock, 10, [large, small]);
    expect(ofLarge! / ofSmall!).toBeCloseTo(1, 1);
  });

  test('goes to the others at once when a link ends; a link that begins gets its share, not more', () => {
    const { clock, rate } = world();
    const [ada, bo] = [new Greedy(rate, 'a'), new Greedy(rate, 'b')];
    for (const each of [ada, bo]) each.send();
    during(clock, 10, [ada, bo]);
    bo.leave();
    expect(during(clock, 10, [ada])[0]).toBeCloseTo(100, -1);
    const cy = new Greedy(rate, 'c');
    cy.send();
    const [ofAda, ofCy] = during(clock, 1, [ada, cy]);
    expect(ofAda! / ofCy!).toBeCloseTo(1, 1);
  });

  test('delays a link that sends little only by milliseconds while others use up the rate', () => {
    const { clock, rate } = world();
    for (let i = 0; i < 20; i++) new Greedy(rate, 'busy').send();
    clock.advance(1000);
    let waits = 0;
    let longestMs = 0;
    let since = 0;
    const share = rate.join('quiet', () => (longestMs = Math.max(longestMs, clock.now() - since)));
    for (let i = 0; i < 100; i++) {
      clock.advance(50);
      since = clock.now();
      if (!rate.take(share, 2 * KIB)) waits++;
    }
    expect(waits).toBeGreaterThan(0);
    // A turn of another link, of 64 KiB, takes 6.6 ms.
    expect(longestMs).toBeLessThan(10);
  });

  test('costs no timer while it is not used up, or when nobody waits', () => {
    const { clock, rate } = world();
    const share = rate.join('room', () => {});
    for (let i = 0; i < 100; i++) {
      expect(rate.take(share, 64 * KIB)).toBe(true);
      clock.advance(10);
    }
    expect(clock.untilNext).toBeNull();
    while (rate.take(share, 64 * KIB));
    expect(clock.untilNext).toBeGreaterThan(0);
    rate.leave(share);
    expect(clock.untilNext).toBeNull();
  });

  test.each([0, 1000, -1, Number.NaN, Infinity])('cannot be %d bytes per second', (bytesPerSecond) => {
    expect(() => world(bytesPerSecond)).toThrow(/must be at least 0.1 MB\/s, .* --server-links-rate/);
  });
});
