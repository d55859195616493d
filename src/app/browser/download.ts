/** Gives the user a file. */

/** After this the browser has read the file, milliseconds: some read it late. */
const READ_MS = 30_000;

/** Saves `value` as a JSON file of that name, where this browser puts downloads. */
export function saveJson(name: string, value: unknown): void {
  saveFile(name, JSON.stringify(value), 'application/json');
}

/** Saves `content` as a file of that name and media type. */
export function saveFile(name: string, content: string | Uint8Array<ArrayBuffer>, type: string): void {
  const url = URL.createObjectURL(new Blob([content], { type }));
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), READ_MS);
}
