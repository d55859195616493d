/** Downloads. */

/** After this many milliseconds, the browser has certainly read the file. */
const READ_MS = 30_000;

/** Downloads `value` as a JSON file. */
export function saveJson(name: string, value: unknown): void {
  saveFile(name, JSON.stringify(value), 'application/json');
}

/** Downloads `content` as a file. */
export function saveFile(name: string, content: string | Uint8Array<ArrayBuffer>, type: string): void {
  const url = URL.createObjectURL(new Blob([content], { type }));
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), READ_MS);
}
