/**
 * Prints the section of CHANGELOG.md about a release: `tsx tools/packages/releaseNotes.ts v0.2.0`.
 * Fails if a package has a different version, or the section is missing.
 */
import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';

const ROOT = path.resolve(import.meta.dirname, '../..');

const [tag = ''] = process.argv.slice(2);
const changelog = await readFile(path.join(ROOT, 'CHANGELOG.md'), 'utf8');
for (const folder of await readdir(path.join(ROOT, 'packages'))) {
  const text = await readFile(path.join(ROOT, 'packages', folder, 'package.json'), 'utf8');
  const { name, version } = JSON.parse(text) as { name: string; version: string };
  if (tag !== `v${version}`)
    throw new Error(`The tag is "${tag}", but ${name} has version ${version}. Set the version with npm version.`);
}
const section = changelog.split(/^## /m).find((part) => part.split(/\s/, 1)[0] === tag.slice(1));
if (section === undefined) throw new Error(`CHANGELOG.md has no heading "## ${tag.slice(1)}". Add it.`);
console.log(section.slice(section.indexOf('\n')).trim());
