/** The animated ring and grid of the front page, step by step, in a real tab. */
import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { worldOfFile } from '../harness/world.ts';

const world = await worldOfFile();

/** Everything that the ring and the grid show: texts, positions of marks, and the grid's pixels. */
interface Drawn {
  words: string[];
  places: string[];
  pixels: string;
}

/**
 * A string and not a function: the transpiler would add helpers to a function, which the page does
 * not have.
 */
const READ_DRAWN = `(() => {
  const figure = document.querySelector('figure');
  const chunks = [...figure.querySelectorAll('.chunks > g')].filter((one) => one.getAttribute('visibility') === 'visible');
  return {
    words: [
      ...[...figure.querySelectorAll('.ring text, .caption, .grid [role=gridcell]')].map((one) => one.textContent),
      ...chunks.map((one) => one.outerHTML.replace(/transform="[^"]*"/, '')),
      figure.querySelector('.scrub input').getAttribute('aria-valuetext'),
    ],
    places: chunks.map((one) => one.getAttribute('transform')),
    pixels: figure.querySelector('canvas').toDataURL(),
  };
})()`;

const READ_PLACE = `document.querySelector('.scrub input').valueAsNumber`;

/** Evaluates `expression` in the page after the browser has drawn two more frames. */
async function read<Value>(page: Page, expression: string): Promise<Value> {
  await page.getByRole('grid').waitFor();
  await page.evaluate('new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))');
  return page.evaluate<Value>(expression);
}

/** Moves the handle of the slider to the position `to`, in thousandths of the round. */
async function scrub(page: Page, to: number): Promise<void> {
  await page.getByRole('slider', { name: 'Position in the round' }).fill(String(to));
}

/** Plays the animation until the handle is at `place`, then pauses it. */
async function playTo(page: Page, place: number): Promise<void> {
  await page.getByRole('button', { name: 'Play' }).click();
  await expect.poll(() => page.evaluate<number>(READ_PLACE), SOON).toBeGreaterThanOrEqual(place);
  await page.getByRole('button', { name: 'Pause' }).click();
}

/** Options of expect.poll: polls often, with a deadline for slow machines. */
const SOON = { interval: 10, timeout: 10_000 };

const coordinates = (places: string[]): number[] => (places.join(' ').match(/-?[\d.]+/g) ?? []).map(Number);

test('a position in the round looks the same, whether it is reached by playing or with the slider', async () => {
  const { page } = await world.open('#?ranks=5&step=0&speed=0.5');
  // The place 260 is in the middle of the third ring step.
  await scrub(page, 260);
  await playTo(page, 280);
  const played = await read<Drawn>(page, READ_DRAWN);
  // The slider has a resolution of a thousandth of the round. A chunk moves less than two pixels in
  // that time.
  await scrub(page, await read<number>(page, READ_PLACE));
  const scrubbed = await read<Drawn>(page, READ_DRAWN);
  expect(scrubbed.words).toEqual(played.words);
  expect(scrubbed.places).toHaveLength(played.places.length);
  coordinates(played.places).forEach((one, i) => {
    expect(Math.abs(one - coordinates(scrubbed.places)[i]!)).toBeLessThan(2);
  });

  // A step back ends at the same place in two tabs: one has played to a place after it, the other
  // used the slider.
  await page
    .getByRole('button', { name: 'Pause' })
    .or(page.getByRole('button', { name: 'Play' }))
    .focus();
  await scrub(page, 480);
  await playTo(page, 510);
  await page.getByRole('button', { name: 'One step back' }).click();
  const stepped = await read<Drawn>(page, READ_DRAWN);
  const place = await read<number>(page, READ_PLACE);
  const other = await world.open('#?ranks=5&step=7');
  await scrub(other.page, place + 20);
  await other.page.getByRole('button', { name: 'One step back' }).click();
  expect(await read<Drawn>(other.page, READ_DRAWN)).toEqual(stepped);
});

test('the player shows a few still pictures if the user prefers reduced motion', async () => {
  const { page } = await world.open('#?ranks=3&step=0&speed=8');
  await page.emulateMedia({ reducedMotion: 'reduce' });
  const stops = [];
  for (let stop = 0; stop < 6; stop++) {
    stops.push(await read<number>(page, READ_PLACE));
    await page.keyboard.press('ArrowRight');
  }
  expect(new Set(stops).size).toBe(6);
  const seen = page.evaluate<number[]>(`new Promise((resolve) => {
    const places = new Set();
    const end = performance.now() + 1500;
    requestAnimationFrame(function look(now) {
      places.add(${READ_PLACE});
      if (now < end) requestAnimationFrame(look);
      else resolve([...places]);
    });
  })`);
  await page.keyboard.press('Space');
  expect((await seen).length).toBeGreaterThan(2);
  for (const place of await seen) expect(stops).toContain(place);
});

test('the keyboard reaches the player, every grid cell, and every chunk on the ring', async () => {
  const { page } = await world.open('#?ranks=4&step=0');
  const expectText = (selector: string) =>
    expect.poll(() => page.locator(selector).first().textContent({ timeout: 1000 }), SOON);
  const expectValue = (name: string) =>
    expect.poll(() => page.getByRole('slider', { name }).getAttribute('aria-valuetext'), SOON);
  await expectValue('Position in the round').toBe('0 of 6 ring steps done');
  await page.keyboard.press('ArrowRight');
  await page.keyboard.press('ArrowRight');
  await expectValue('Position in the round').toBe('1 of 6 ring steps done');
  await page.keyboard.press('End');
  await expectValue('Position in the round').toBe('6 of 6 ring steps done');
  await page.keyboard.press(']');
  await expectValue('Speed').toBe('2×');
  await expect.poll(() => page.evaluate('location.hash'), SOON).toBe('#?ranks=4&step=6&speed=2');

  const tabTo = async (role: string): Promise<void> => {
    for (let press = 0; press < 30; press++) {
      await page.keyboard.press('Tab');
      if (await page.evaluate<boolean>(`document.activeElement.getAttribute('role') === '${role}'`)) return;
    }
    throw new Error(`The Tab key was pressed 30 times and did not reach the ${role}.`);
  };
  await tabTo('listbox');
  await page.keyboard.press('ArrowRight');
  // The chunk that rank 1 sent in the last ring step came from rank 3.
  await expectText('[role=option]').toContain('Chunk D, from rank 1 to rank 2');
  await expectText('.chunk-detail').toContain('Rank 2, chunk D: the finished sum of all 4 ranks.');
  expect(await page.locator('.ring .light').count()).toBe(2);

  await tabTo('grid');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('ArrowRight');
  await expectText('[role=gridcell]').toContain('Rank 1, chunk B');
  await expectText('.chunk-detail').toContain('in ring step 6 of 6');
  // Both views highlight the same chunk: its path on the ring, and its column in the grid.
  await expectText('.grid-columns .lit').toBe('B');
  expect(await page.locator('.ring .light.from').count()).toBe(1);
  await page.keyboard.press('Escape');
  await expectText('.chunk-detail').toContain('Point at a cell');
  expect(await page.locator('.light').count()).toBe(0);
  expect(await page.evaluate('document.activeElement === document.body')).toBe(true);
});

test('focusing the grid after the world has become smaller selects a cell that still exists', async () => {
  const { page } = await world.open('#?ranks=8&step=3');
  const grid = page.getByRole('grid');
  const expectText = (selector: string) =>
    expect.poll(() => page.locator(selector).first().textContent({ timeout: 1000 }), SOON);
  await grid.focus();
  await page.keyboard.press('End');
  for (let rank = 0; rank < 7; rank++) await page.keyboard.press('ArrowDown');
  await expectText('.chunk-detail').toContain('Rank 7, chunk H');
  await page.keyboard.press('Escape');
  await page.getByRole('slider', { name: 'Ranks' }).fill('4');
  await expectText('[role=gridcell]').toContain('Rank 3, chunk D');
  await grid.focus();
  await expectText('.chunk-detail').toContain('Rank 3, chunk D');
});

test.each([1280, 360])(
  'a page that is %i pixels wide shows 32 simulated ranks with labels and without overlap',
  async (width) => {
    const { page } = await world.open('#simulated?ranks=32');
    await page.setViewportSize({ width, height: 800 });
    await page.locator('.ring .rank-shape').nth(31).waitFor();
    const folded = page.locator('details.panel > summary');
    if (width === 360) {
      await folded.nth(3).waitFor();
      for (const summary of await folded.all()) await summary.click();
    }
    // Ranks report every ten steps; their first report follows two steps.
    await page.locator('.lanes li').nth(31).waitFor();
    const { overflow, names } = await page.evaluate<{ overflow: number; names: DOMRect[] }>(`({
    overflow: document.documentElement.scrollWidth - innerWidth,
    names: [...document.querySelectorAll('.ring :is(.mark-name, .mark-number)')].map((one) => one.getBoundingClientRect().toJSON()),
  })`);
    expect(overflow).toBe(0);
    // At least every second rank has a number.
    expect(names.length).toBeGreaterThanOrEqual(16);
    for (const [i, a] of names.entries()) {
      for (const b of names.slice(i + 1)) {
        const apart = a.right <= b.left || b.right <= a.left || a.bottom <= b.top || b.bottom <= a.top;
        expect(apart, `${JSON.stringify(a)} and ${JSON.stringify(b)} overlap`).toBe(true);
      }
    }
    expect(await page.locator('.ranks-panel tbody tr').count()).toBe(32);
  },
);
