/** Downloads in a page. */

/** After this many milliseconds, the browser has certainly read the file. */
const READ_MS = 30_000;

export function downloadJson(name: string, value: unknown): void {
  downloadFile(name, JSON.stringify(value), 'application/json');
}

/**
 * Downloads `content` under a file name, as a link with the attribute `download` does. Only pages
 * can download; workers cannot.
 *
 * @param type the file's media type.
 */
export function downloadFile(name: string, content: BlobPart, type = 'application/octet-stream'): void {
  const url = URL.createObjectURL(new Blob([content], { type }));
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), READ_MS);
}
