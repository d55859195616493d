/**
 * The lesson in real tabs: a class of three tabs with links between them, and one tab alone with
 * the keyboard only.
 */
import { expect, test, vi } from 'vitest';
import { lessonMovesAt, roundStepCount } from '../../../src/engine/lesson/lessonRound.ts';
import type { LessonAlgorithm } from '../../../src/protocol/lesson.ts';
import { type Tab, worldOfFile } from '../harness/world.ts';

vi.setConfig({ testTimeout: 120_000 });

const world = await worldOfFile();

const button = (tab: Tab, name: string) => tab.page.getByRole('button', { name, exact: true });

/** Reads the numbers of all ranks on the tab's screen, row by row. */
async function screen({ page }: Tab): Promise<number[][]> {
  const rows = page.getByRole('grid').locator('tbody tr');
  const texts = await rows.evaluateAll((all) =>
    all.map((row) => [...row.querySelectorAll('td')].map((td) => td.innerText)),
  );
  return texts.map((row) => row.map((text) => Number(text.replace('−', '-'))));
}

/** Resolves once the tab's screen shows `taken` steps of a round in `mode`. */
async function reaches(tab: Tab, mode: LessonAlgorithm, taken: number, n: number): Promise<void> {
  await tab.page.getByText(`step ${taken} of ${roundStepCount(mode, n)}`).waitFor();
}

function after(mode: LessonAlgorithm, own: readonly number[][], steps: number): number[][] {
  const held = own.map((list) => [...list]);
  for (let step = 0; step < steps; step++) {
    for (const { from, to, start, end, adds } of lessonMovesAt(mode, own.length, step)) {
      for (let i = start; i < end; i++) held[to]![i] = held[from]![i]! + (adds ? held[to]![i]! : 0);
    }
  }
  return held;
}

test('three tabs add up typed numbers step by step on the ring, with a server, and after a tab has left', async () => {
  const ann = await world.open('#new?job=lesson&name=ann');
  await button(ann, 'Open the room').click();
  const { room } = await ann.event('admitted');
  const others = [await world.join(room, 'ben'), await world.join(room, 'cid')];
  const tabs = [ann, ...others];
  await ann.event('room', ({ members }) => members.length === 3 && members.every(({ device }) => device !== null));
  await button(ann, 'Start').click();

  const own: number[][] = [];
  for (const tab of tabs) {
    const { rank } = await tab.event('generation', ({ worldSize }) => worldSize === 3);
    own[rank] = [rank + 1, 10 * rank, 1 - 2 * rank, 99 - rank];
    for (const [i, value] of own[rank].entries()) await tab.page.getByLabel(`Your number ${i + 1}`).fill(String(value));
  }
  for (const tab of tabs) await expect.poll(() => screen(tab), { timeout: 20_000 }).toEqual(own);

  for (const mode of ['ring', 'parameter-server'] as const) {
    if (mode === 'parameter-server') {
      // The host turns to the page about servers, and all tabs follow.
      for (let page = 1; page < 7; page++) await button(ann, 'Next').click();
      await others[0]!.page.getByRole('heading', { name: 'The obvious way' }).waitFor();
      await button(ann, 'parameter server').click();
    }
    for (let step = 1; step <= roundStepCount(mode, 3); step++) {
      await button(ann, 'Next step').click();
      for (const tab of tabs) {
        await reaches(tab, mode, step, 3);
        expect(await screen(tab)).toEqual(after(mode, own, step));
      }
    }
  }
  await others[0]!.page.getByText('The busiest link is that of ann (rank 0): 64 B.').waitFor();
  expect(await button(others[0]!, 'Next step').count()).toBe(0);

  await others[1]!.page.close();
  await ann.page
    .getByText(/cid \(rank 2\) left\. The ring now links its neighbours, and 2 rows of numbers remain/)
    .waitFor();
  const left = own.filter((_, rank) => rank !== 2);
  await button(ann, 'All steps').click();
  for (const tab of [ann, others[0]!]) {
    await reaches(tab, 'parameter-server', 2, 2);
    const [first, ...rest] = await screen(tab);
    for (const row of rest) expect(row).toEqual(first);
    expect(first).toEqual(left[0]!.map((value, i) => value + left[1]![i]!));
  }
  await button(ann, 'End the lesson').click();
  await button(ann, 'End').click();
  for (const tab of [ann, others[0]!]) await tab.page.getByText('The lesson is over.').waitFor();
  expect([...ann.violations, ...others[0]!.violations]).toEqual([]);
});

test('one tab alone can go through the whole lesson by keyboard, beginning at the front page', async () => {
  const { page } = await world.open('');
  const focusOn = async (name: string): Promise<void> => {
    for (let i = 0; i < 60; i++) {
      await page.keyboard.press('Tab');
      const text = await page.evaluate<string>(`(() => {
        const { ariaLabel, textContent } = document.activeElement;
        return ariaLabel ?? textContent;
      })()`);
      if (text === name) return;
    }
    throw new Error(`The Tab key reached no element with the name "${name}".`);
  };
  await focusOn('or take the lesson alone');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: '4 numbers each' }).waitFor();
  await focusOn('Your number 1');
  await page.keyboard.type('7');
  await page.getByRole('gridcell', { name: 'Rank 0, Chunk A: 7, its own number.' }).waitFor();
  await focusOn('Next step');
  await page.keyboard.press('Enter');
  await page.getByText('step 1 of 6').waitFor();
  await focusOn('All steps');
  await page.keyboard.press('Enter');
  await page.getByText('step 6 of 6').waitFor();
  for (let turned = 2; turned <= 11; turned++) {
    await page.keyboard.press('ArrowRight');
    await page.getByText(`${turned} of 11`).waitFor();
  }
  await page.getByRole('heading', { name: 'This is how tabs train' }).waitFor();
  expect(new URL(page.url()).hash).toBe('#lesson?page=11');
  await focusOn('Start a room');
});

test('one tab alone chooses the passes of a pipeline stage in the lesson, and reads why a pass must wait', async () => {
  const { page } = await world.open('');
  await page.getByRole('link', { name: 'or the lesson about pipelines' }).click();
  await page.getByRole('heading', { name: 'Too large for one tab' }).waitFor();
  for (let turned = 2; turned <= 5; turned++) {
    await page.keyboard.press('ArrowRight');
    await page.getByText(`${turned} of 7`).waitFor();
  }
  await page.getByLabel('Micro-batches, M').selectOption('2');
  const press = (name: string) => page.getByRole('button', { name, exact: true }).press('Enter');
  await press('Forward 1');
  await press('Backward 1');
  await page.getByText('Not yet: stage 1 has not finished backward 1, and you need its gradient.').waitFor();
  await press('Forward 2');
  for (let tick = 3; tick <= 8; tick++) {
    await page.getByText(`Tick ${tick}: what does stage 0 do?`).waitFor();
    await press('Do as 1F1B');
  }
  await page.getByText('Finished in 8 ticks, with at most 2 micro-batches kept.').waitFor();
  const row = page.getByRole('row', { name: 'Stage 0' });
  const cells = await row.getByRole('cell').evaluateAll((all) => all.map((cell) => cell.textContent));
  expect(cells.map((text) => text?.trim())).toEqual([
    ...['forward 1', 'forward 2', 'waits', 'waits', 'waits'],
    ...['backward 1', 'waits', 'backward 2'],
  ]);
  expect(new URL(page.url()).hash).toBe('#pipeline?page=5&microBatches=2');
});
