/**
 * A class in real tabs: a host, and guests who join by code, by link, and with the keyboard only.
 */
import { expect, test, vi } from 'vitest';
import { type Tab, worldOfFile } from '../harness/world.ts';

vi.setConfig({ testTimeout: 120_000 });

const world = await worldOfFile();

const button = (tab: Tab, name: string) => tab.page.getByRole('button', { name, exact: true });

/** Presses the Tab key until an element whose accessible name matches `name` has the focus. */
async function tabTo(tab: Tab, name: RegExp): Promise<void> {
  for (let i = 0; i < 40; i++) {
    await tab.page.keyboard.press('Tab');
    const focused = await tab.page.evaluate(() => {
      const on = document.activeElement;
      const label = on instanceof HTMLInputElement ? on.labels?.[0]?.textContent : on?.textContent;
      return on?.getAttribute('aria-label') ?? label ?? '';
    });
    if (name.test(focused.trim())) return;
  }
  throw new Error(`The Tab key reached no element with the name ${name}.`);
}

/** Waits until the page of the run shows the picture of an algorithm. */
const pictureIs = (tab: Tab, name: string) => tab.page.locator(`.stage .ring[data-picture=${name}]`).waitFor();

/** The narrowest window that the page must support. */
const PHONE = { width: 360, height: 740 };

/** Width of the page in pixels: more than its window's if the page scrolls sideways. */
const widthOf = (tab: Tab): Promise<number> => tab.page.evaluate(() => document.documentElement.scrollWidth);

test('three tabs join by code, link and keyboard; the host pauses the run and removes a tab, and the other tabs finish', async () => {
  const ada = await world.open('#new?name=ada&seed=7&batchSize=4&maxSteps=48&hashEvery=8&algorithm=two-level');
  await button(ada, 'Open the room').click();
  const { room } = await ada.event('admitted');
  const link = new URL(
    await ada.page
      .locator('.link')
      .innerText()
      .then((text) => `http://${text}`),
  ).hash;

  const ben = await world.open('');
  await ben.page.getByLabel('or type a code').fill(room.toLowerCase());
  await button(ben, 'Join').click();
  await ben.page.getByLabel('Your name').fill('ben');
  await button(ben, 'Join').click();

  const cid = await world.open(`${link}?name=cid`);
  await button(cid, 'Join').click();

  const dee = await world.open(`${link}?lang=zh`);
  await dee.page.setViewportSize(PHONE);
  // The name field has the focus.
  await dee.page.locator('input:focus').waitFor();
  await dee.page.keyboard.type('狄');
  await tabTo(dee, /^加入$/);
  await dee.page.keyboard.press('Enter');

  await ada.page.getByRole('heading', { name: '4 of 4 ready' }).waitFor({ timeout: 60_000 });
  await ada.page.getByText('狄').first().waitFor();
  expect(await widthOf(dee)).toBe(PHONE.width);
  await tabTo(ada, /^Start$/);
  await ada.page.keyboard.press('Enter');
  const all = [ada, ben, cid, dee];
  await Promise.all(all.map((tab) => tab.event('step')));

  // A press needs no stable place. Charts that appear move the button.
  await button(ada, 'Pause the run').press('Enter');
  await Promise.all([ben, cid].map((tab) => tab.page.getByText('paused by the host').first().waitFor()));
  const { step } = ben.events.filter((event) => event.type === 'step').at(-1)!;
  expect(step).toBeLessThan(47);
  await Promise.all([ada, dee].map((tab) => pictureIs(tab, 'two-level')));
  expect((await ben.event('trace')).algorithm).toBe('two-level');
  expect(await widthOf(dee)).toBe(PHONE.width);
  await button(ada, 'Remove cid').click();
  await ada.page.getByRole('group', { name: 'Remove cid?' }).getByRole('button', { name: 'Remove' }).click();
  expect((await cid.event('failed')).message).toMatch(/^The host has removed this tab/);
  expect(ben.events.filter((event) => event.type === 'step').at(-1)).toMatchObject({ step });
  await button(ada, 'Resume the run').click();
  await ada.event('generation', ({ worldSize }) => worldSize === 3);
  // Three ranks cannot be divided into several groups.
  await pictureIs(ada, 'ring');

  const results = await Promise.all([ada, ben, dee].map(async (tab) => (await tab.event('finished')).result));
  for (const result of results) {
    expect(result).toMatchObject({ worldSize: 3, steps: 48, stateHash: results[0]!.stateHash });
    expect(new Set(result.stateHash).size).toBe(1);
  }
  await ben.page.getByText('finished').first().waitFor();
});
