/** In real tabs, a user draws a digit with the mouse or with keys, and the model classifies it. */
import { expect, test, vi } from 'vitest';
import { type Tab, worldOfFile } from '../harness/world.ts';

vi.setConfig({ testTimeout: 120_000 });

const world = await worldOfFile();

const pad = (tab: Tab) => tab.page.getByRole('application', { name: /^(Drawing pad|A held-out image)/ });
const status = (tab: Tab) => tab.page.locator('.inspection [role=status]');

/** Draws a 1 with the mouse: a line down the middle of the pad, in a few moves. */
async function drawOne(tab: Tab): Promise<void> {
  await pad(tab).scrollIntoViewIfNeeded();
  const { x, y, width, height } = (await pad(tab).boundingBox())!;
  await tab.page.mouse.move(x + 0.5 * width, y + 0.1 * height);
  await tab.page.mouse.down();
  await tab.page.mouse.move(x + 0.48 * width, y + 0.9 * height, { steps: 5 });
  await tab.page.mouse.up();
}

test('a 1 drawn with mouse or keys is recognized during and after training; the page shows mistakes and weights', async () => {
  const room = world.createRoom({ maxSteps: 30, learningRate: 0.004 }, 2);
  const [ann, ben] = await Promise.all([world.join(room, 'ann'), world.join(room, 'ben')]);
  await ann.event('step');
  await drawOne(ann);
  // The page classifies the drawing repeatedly during training, and the model still stays equal on
  // both ranks.
  const first = await ann.event('prediction', ({ answer }) => answer !== null);
  await ann.event('prediction', ({ answer }) => answer!.steps > first.answer!.steps);
  const results = await Promise.all([ann, ben].map((tab) => tab.event('finished')));
  expect(new Set(results.flatMap(({ result }) => result.stateHash)).size).toBe(1);

  const { inspection } = await ann.event('inspection', (event) => event.inspection?.steps === 30);
  expect(inspection!.stateHash).toBe(results[0]!.result.stateHash[0]);
  const { answer } = await ann.event('prediction', (event) => event.answer?.steps === 30);
  expect(answer!.probabilities[1]).toBeGreaterThan(0.5);
  await status(ann).getByText('The model sees the digit 1.').waitFor();
  await ann.page.getByText(`Both ranks hold the same model. It has trained for 30 steps`).waitFor();
  await ann.page.getByText(`${inspection!.wrong} of 256 held-out images`).waitFor();
  expect(await ann.page.getByRole('button', { name: /^\d, read as \d \(\d+ %\)$/ }).count()).toBe(
    inspection!.mistakes.length,
  );
  // The confusion matrix has each held-out digit once, and is equal in both tabs.
  const { confusion } = results[0]!.result;
  expect(confusion!.counts.flat().reduce((sum, count) => sum + count)).toBe(2000);
  expect(results[1]!.result.confusion).toEqual(confusion);
  const rows = ann.page.getByRole('table', { name: 'Confusion matrix' }).getByRole('row');
  await rows.last().waitFor();
  expect(await rows.last().textContent()).toBe(`9${confusion!.counts[9]!.join('')}`);
  await ann.page.getByText(/^Most frequent mistake: \d predicted as \d \(\d+ times\)\.$/).waitFor();
  await ann.page.getByRole('img', { name: /^32 pictures of the weights of the first layer/ }).waitFor();

  // A tap leaves a dot of ink.
  await ann.page.getByRole('button', { name: 'Clear' }).click();
  await pad(ann).click();
  const ink = () =>
    pad(ann).evaluate((canvas) => {
      const { width, height } = canvas as HTMLCanvasElement;
      const { data } = (canvas as HTMLCanvasElement).getContext('2d')!.getImageData(0, 0, width, height);
      return data.filter((value, i) => i % 4 === 3 && value > 0).length;
    });
  await expect.poll(ink).toBeGreaterThan(20);

  // Ben draws with keys: moves up, puts the pen down, and moves down.
  await ben.page.setViewportSize({ width: 360, height: 740 });
  await ben.page.getByText('What the model has learned').press('Enter');
  await pad(ben).focus();
  for (let i = 0; i < 10; i++) await ben.page.keyboard.press('ArrowUp');
  await ben.page.keyboard.press('Space');
  for (let i = 0; i < 20; i++) await ben.page.keyboard.press('ArrowDown');
  await ben.page.keyboard.press('Space');
  await status(ben).getByText('The model sees the digit 1.').waitFor();
  await ben.page.keyboard.press('Delete');
  await status(ben).getByText('Nothing drawn yet.').waitFor();
  // The model can also classify a held-out image instead of a drawing.
  await ben.page.getByRole('button', { name: 'Use this held-out image of the digit 1' }).press('Enter');
  await status(ben).getByText('The model sees the digit 1.').waitFor();
  expect([ann, ben].flatMap(({ violations }) => violations)).toEqual([]);
});
