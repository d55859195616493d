/** In real tabs, saves a model as a file and opens another room that begins with that file. */
import { readFile } from 'node:fs/promises';
import { expect, test, vi } from 'vitest';
import type { ModelFileFormat } from '../../../src/spec/modelFile.ts';
import { type Tab, worldOfFile } from '../harness/world.ts';

vi.setConfig({ testTimeout: 150_000 });

const world = await worldOfFile();

const button = (tab: Tab, name: string) => tab.page.getByRole('button', { name, exact: true });

/** Clicks the page's button that saves the model, and returns the downloaded file. */
async function save(tab: Tab, format: string): Promise<{ name: string; bytes: Buffer }> {
  await tab.page.getByLabel('Save the model as').selectOption(format);
  return download(tab, 'Save model');
}

async function download(tab: Tab, name: string): Promise<{ name: string; bytes: Buffer }> {
  const [file] = await Promise.all([tab.page.waitForEvent('download'), tab.press(name)]);
  return { name: file.suggestedFilename(), bytes: await readFile(await file.path()) };
}

/**
 * Fills in the form for a room that begins with `file`. `query` has fields of the job. `startAt` is
 * the number of tabs that is typed before the file is chosen.
 */
async function begin(file: { name: string; bytes: Buffer }, query = '', startAt: number | null = null): Promise<Tab> {
  const tab = await world.open(`#new?name=ann&${query}`);
  if (startAt !== null) {
    await tab.page.getByText('Advanced', { exact: true }).click();
    await tab.page.getByLabel('Start at').fill(String(startAt));
    await tab.page.keyboard.press('Tab');
  }
  await tab.page.getByText('Continue from a file').click();
  const { name, bytes: buffer } = file;
  const input = tab.page.locator('input[type=file][aria-label="Choose a file"]');
  await input.setInputFiles({ name, mimeType: 'application/octet-stream', buffer });
  return tab;
}

/** The weights of a tab's model by name, as base64. */
async function weightsIn(tab: Tab): Promise<Record<string, string>> {
  const before = tab.events.filter(({ type }) => type === 'exported').length;
  await tab.page.evaluate(() => globalThis.peergradExport!('safetensors' satisfies ModelFileFormat));
  await expect.poll(() => tab.events.filter(({ type }) => type === 'exported').length).toBe(before + 1);
  const bytes = await tab.page.evaluate(() => globalThis.peergradModelPart!(0, 1e9));
  const end = 8 + Number(new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(0, true));
  const header = JSON.parse(Buffer.from(bytes.subarray(8, end)).toString()) as Record<
    string,
    { data_offsets?: [number, number] }
  >;
  return Object.fromEntries(
    Object.entries(header).flatMap(([name, { data_offsets: at }]) =>
      at ? [[name, Buffer.from(bytes.subarray(end + at[0], end + at[1])).toString('base64')]] : [],
    ),
  );
}

test('a run can begin with a model that another room saved in any format; one tab can continue a checkpoint of two', async () => {
  const fields = { maxSteps: 40, batchSize: 4, hashEvery: 5, hidden: 6 };
  const room = world.createRoom(fields, 2, { min: 1, max: 8 });
  // The run waits for this page after each comparison of states, so it does not end too early.
  const before = 'globalThis.peergradCheckpointBarrier = true;';
  const [ann, ben] = await Promise.all([world.join(room, 'ann', { before }), world.join(room, 'ben')]);
  await ann.event('hashes');
  const checkpoint = await download(ann, 'Save checkpoint');
  expect(checkpoint.name).toMatch(/^peergrad-digits-mlp-step-\d+\.peergrad$/);
  await ann.page.evaluate((step) => globalThis.peergradCheckpointSaved!(step), fields.maxSteps);
  await Promise.all([ann, ben].map((tab) => tab.event('finished')));
  const files = [await save(ann, 'safetensors'), await save(ann, 'tfjs'), await save(ben, 'keras')];
  expect(files.map(({ name }) => name)).toEqual([
    ...['peergrad-digits-mlp-step-40.safetensors', 'peergrad-digits-mlp-step-40.zip'],
    'peergrad-digits-mlp-step-40.weights.h5',
  ]);
  const trained = await weightsIn(ann);
  expect(await weightsIn(ben)).toEqual(trained);
  expect([ann, ben].flatMap(({ violations }) => violations)).toEqual([]);

  await Promise.all([ann, ben].map((tab) => tab.page.close()));

  for (const [i, file] of files.entries()) {
    // The other seed would give other weights, so equal weights come from the file. The single step
    // is too small to change them.
    const tab = await begin(file, 'hidden=6&seed=9&maxSteps=1&batchSize=1&optimizer=sgd&learningRate=1e-30');
    await tab.page.getByText(`The run begins with the weights of ${file.name}`).waitFor();
    await button(tab, 'Open the room').click();
    await tab.event('weights', (event) => event.file === file.name);
    const { room: code } = await tab.event('admitted');
    // For the first format, a second tab joins and receives the weights from this tab.
    const tabs = i === 0 ? [tab, await world.join(code, 'cid')] : [tab];
    await tab.event(
      'room',
      ({ members }) => members.length === tabs.length && members.every(({ device }) => device !== null),
    );
    await button(tab, 'Start').click();
    await Promise.all(tabs.map((one) => one.event('finished')));
    expect(await weightsIn(tabs.at(-1)!), file.name).toEqual(trained);
    expect(tab.violations).toEqual([]);
    await Promise.all(tabs.map((one) => one.page.close()));
  }

  const back = await begin(checkpoint, '', 3);
  const saved = Number(/step-(\d+)/.exec(checkpoint.name)![1]);
  await back.page
    .getByText(`The run continues the job “digits/mlp” from ${checkpoint.name}, after step ${saved}`)
    .waitFor();
  await button(back, 'Open the room').click();
  await back.event('checkpoint', ({ step }) => step === saved);
  const here = await back.event(
    'room',
    ({ members }) => members.length === 1 && members.every(({ device }) => device !== null),
  );
  // A checkpoint has its own settings, so the typed `startAt` is not used.
  expect(here.startAt).toBeNull();
  await button(back, 'Start').click();
  const { result } = await back.event('finished');
  expect([result.steps, result.worldSize]).toEqual([40, 1]);
  const losses = (await ann.event('finished')).result.losses.slice(0, saved);
  expect(result.losses.slice(0, saved)).toEqual(losses);
});

test('a truncated file and a file without weights are rejected with a reason', async () => {
  const cut = await begin({
    name: 'half.peergrad',
    bytes: Buffer.from('0123456789abcdef\u0000\u0001\u0000\u0000{"format":1'),
  });
  await expect.poll(() => cut.page.getByText('half.peergrad is damaged (it is cut off').count()).toBe(1);
  const text = await begin({ name: 'notes.txt', bytes: Buffer.from('nothing of the kind') });
  await button(text, 'Open the room').click();
  await expect.poll(() => text.page.getByText('notes.txt is not a supported file of weights').count()).toBe(1);
});

const OWN = {
  peergrad: 1,
  maxSteps: 4,
  batchSize: 4,
  hashEvery: 2,
  seed: 7,
  model: {
    class_name: 'Sequential',
    config: {
      layers: [
        { class_name: 'Conv2D', config: { filters: 2, kernel_size: 5, strides: 4, input_shape: [28, 28, 1] } },
        { class_name: 'LayerNormalization', config: {} },
        { class_name: 'Flatten', config: {} },
        { class_name: 'Dropout', config: { rate: 0.25 } },
        { class_name: 'Dense', config: { units: 10, activation: 'softmax' } },
      ],
    },
  },
};

test('a job file with layers is shown to all tabs, and two tabs train it; an invalid file is rejected with the line', async () => {
  const ann = await world.open('#new?name=ann');
  await ann.page.getByText('Job file', { exact: true }).click();
  const input = ann.page.locator('input[type=file][aria-label="Open a job file"]');
  const open = (text: string) =>
    input.setInputFiles({ name: 'job.json', mimeType: 'application/json', buffer: Buffer.from(text) });
  const json = JSON.stringify(OWN, null, 1);
  await open(json.replace('"Flatten"', '"Lambda"'));
  const line = json.slice(0, json.indexOf('"Flatten"')).split('\n').length;
  await ann.page
    .getByText(
      `job.json, line ${line}: model.config.layers[2].class_name: "Lambda" is not a supported layer: a job is data`,
    )
    .waitFor();
  // The page shows the error of an incomplete value at once. A job file replaces this value.
  await ann.page.getByText('Advanced', { exact: true }).click();
  await ann.page.getByLabel('Seed').pressSequentially('.5');
  await ann.page.getByText(/The job is not valid: seed: Invalid integer/).waitFor();
  await open(json);
  await ann.page.getByText('All settings above are from job.json.').waitFor();
  await ann.page.getByText('5 layers, 786 weights to train:').waitFor();
  const saved = JSON.parse((await download(ann, 'Save as a file')).bytes.toString()) as Record<string, unknown>;
  expect(saved).toMatchObject({ peergrad: 1, job: 'digits', seed: 7, model: { class_name: 'Sequential' } });
  await button(ann, 'Open the room').click();
  const ben = await world.join((await ann.event('admitted')).room, 'ben');
  await ben.page.getByRole('row', { name: 'Conv2D 6 × 6 × 2 52' }).waitFor();
  await ann.event('room', ({ members }) => members.length === 2 && members.every(({ device }) => device !== null));
  await button(ann, 'Start').click();
  const ends = await Promise.all([ann, ben].map((tab) => tab.event('finished')));
  for (const { result } of ends) expect([result.steps, new Set(result.stateHash).size]).toEqual([4, 1]);
  expect(await weightsIn(ben)).toEqual(await weightsIn(ann));
  expect([ann, ben].flatMap(({ violations }) => violations)).toEqual([]);
});
