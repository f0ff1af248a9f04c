"""Writes the published datasets in small, in the layouts in which they are given out with images, and reads them."""

import numpy as np
from PIL import Image
from scipy.io import savemat

from pipelines.datasets import load

SIDE = (24, 18)
BIRDS = {1: "001.Wren", 2: "002.Robin", 3: "003.Old Crow", 4: "004.Jay"}
CAR_BOXES = [(1, 1, 24, 18), (3, 2, 10, 12), (5, 5, 6, 6), (2, 2, 23, 17)]


def picture(path, colour, size=SIDE):
    """A picture of one colour, with its left half darker, so that crops can be told."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.full((size[1], size[0], 3), colour, np.uint8)
    pixels[:, : size[0] // 2] //= 2
    Image.fromarray(pixels).save(path)


def colour_of(number):
    return np.random.default_rng(number).integers(0, 256, 3)


def write_cub(root, per_class=3):
    """Four birds of three images each; the list of boxes too."""
    folder = root / "CUB_200_2011"
    lists = {"images.txt": [], "image_class_labels.txt": [], "bounding_boxes.txt": [], "train_test_split.txt": []}
    for number in range(1, len(BIRDS) * per_class + 1):
        label = (number - 1) // per_class + 1
        name = f"{BIRDS[label]}/{BIRDS[label][4:].replace(' ', '_')}_{number:04d}.jpg"
        picture(folder / "images" / name, colour_of(label))
        rows = (name, label, f"{number}.5 2.5 {number + 4}.0 6.2", number % 2)
        for lines, row in zip(lists.values(), rows, strict=True):
            lines.append(f"{number} {row}\n")
    lists["classes.txt"] = [f"{number} {name}\n" for number, name in BIRDS.items()]
    for name, lines in lists.items():
        (folder / name).write_text("".join(lines))
    return folder


def write_cars_one_folder(root):
    """Four models of two images each: car_ims and cars_annos.mat."""
    rows = [(f"car_ims/{number:06d}.jpg", (number - 1) // 2 + 1, number % 2) for number in range(1, 9)]
    for name, label, _ in rows:
        picture(root / name, colour_of(label))
    annotate(root / "cars_annos.mat", "relative_im_path", rows, class_names=_names("Car A", "Car B", "Car C", "Car D"))
    return root


def write_cars_two_folders(root, test_labels="cars_test_annos_withlabels.mat"):
    """Four models of two images each: cars_train, cars_test and devkit, where file names repeat."""
    for part, annotations in (("train", "devkit/cars_train_annos.mat"), ("test", test_labels)):
        rows = [(f"{number:05d}.jpg", number, None) for number in range(1, 5)]
        for name, label, _ in rows:
            picture(root / f"cars_{part}" / name, colour_of(label))
        annotate(root / annotations, "fname", rows)
    savemat(root / "devkit" / "cars_meta.mat", {"class_names": _names("Car A", "Car B", "Car C", "Car D")})
    return root


def annotate(path, name_field, rows, **more):
    """Writes a file of annotations, compressed as those of the devkit are."""
    fields = (name_field, "bbox_x1", "bbox_y1", "bbox_x2", "bbox_y2", "class", "test")
    annotations = np.zeros((1, len(rows)), dtype=[(field, object) for field in fields])
    for place, (name, label, test) in enumerate(rows):
        annotations[0, place] = (name, *CAR_BOXES[place % 4], label, 0 if test is None else test)
    path.parent.mkdir(parents=True, exist_ok=True)
    savemat(path, {"annotations": annotations, **more}, do_compression=True)


def _names(*names):
    cells = np.empty((1, len(names)), object)
    cells[0, :] = names
    return cells


def write_sop(root):
    """Three training and two test products of two images each, ending in .JPG."""
    folder = root / "Stanford_Online_Products"
    number = 0
    for part, products in (("train", (1, 2, 3)), ("test", (4, 5))):
        lines = ["image_id class_id super_class_id path\n"]
        for product in products:
            for view in range(2):
                number += 1
                name = f"chair_final/{product:012d}_{view}.JPG"
                picture(folder / name, colour_of(product))
                lines.append(f"{number} {product} 1 {name}\n")
        (folder / f"Ebay_{part}.txt").write_text("".join(lines))
    return folder


def write_inshop(root, images="Img/img"):
    """Two training items; two test items with two queries and three gallery images."""
    rows = [("id_00000001", "train", 2), ("id_00000005", "train", 2), ("id_00000002", "query", 1)]
    rows += [("id_00000003", "query", 1), ("id_00000002", "gallery", 2), ("id_00000003", "gallery", 1)]
    lines = []
    for item, status, count in rows:
        for view in range(count):
            name = f"img/WOMEN/Blouses_Shirts/{item}/{status}_{view}_front.jpg"
            picture(root / images / name.removeprefix("img/"), colour_of(int(item[3:])))
            lines.append(f"{name} {item} {status}\n")
    (root / "Eval").mkdir()
    header = f"{len(lines)}\nimage_name item_id evaluation_status\n"
    (root / "Eval" / "list_eval_partition.txt").write_text(header + "".join(lines))
    return root


def write_vehicleid(root):
    """Two training vehicles; test lists of one, two and three vehicles, with three, two and one image."""
    folder = root / "VehicleID_V1.0"
    images = {11: [1, 2], 12: [3, 4], 21: [5, 6, 7], 22: [8, 9], 23: [10]}
    lists = {"train_list": [11, 12], "test_list_800": [21], "test_list_1600": [21, 22], "test_list_2400": [21, 22, 23]}
    (folder / "train_test_split").mkdir(parents=True)
    for name, vehicles in lists.items():
        lines = [f"{number:07d} {vehicle}\n" for vehicle in vehicles for number in images[vehicle]]
        (folder / "train_test_split" / f"{name}.txt").write_text("".join(lines))
    for vehicle, numbers in images.items():
        for number in numbers:
            picture(folder / "image" / f"{number:07d}.jpg", colour_of(vehicle))
    return folder


def write_market(root):
    """Two persons to train; two to test, a distractor, two junk images and a Thumbs.db.

    As in the official files, some names have two extensions.
    """
    folder = root / "Market-1501-v15.09.15"
    names = {
        "bounding_box_train": [
            "0002_c1s1_000451_03",
            "0002_c2s1_000776_01",
            "0007_c3s3_077419_03",
            "0007_c1s1_000001_01",
        ],
        "query": ["0001_c1s1_001051_00.jpg", "0003_c2s1_001051_00"],
        "bounding_box_test": [
            "-1_c1s1_000401_03",
            "-1_c3s1_000401_03.jpg",
            "0000_c1s1_000151_01",
            "0001_c1s1_001051_03",
            "0001_c2s1_001051_01",
            "0003_c1s1_001051_01",
        ],
    }
    for part, stems in names.items():
        for stem in stems:
            picture(folder / part / f"{stem}.jpg", colour_of(abs(int(stem.split("_")[0]))))
        (folder / part / "Thumbs.db").write_bytes(b"")
    return folder


def write_inaturalist(root):
    """Two species to train, two to test, in two supercategories, of two images each."""
    folder = root / "inaturalist2018"
    (folder / "Inat_dataset_splits").mkdir(parents=True)
    for part, species in (("train", {7: "Aves", 12: "Fungi"}), ("test", {3: "Aves", 8: "Aves"})):
        names = [f"train_val2018/{kind}/{number}/{n}{number}.jpg" for number, kind in species.items() for n in "ab"]
        for name in names:
            picture(folder / name, colour_of(int(name.split("/")[2])))
        (folder / "Inat_dataset_splits" / f"Inaturalist_{part}_set1.txt").write_text("\n".join(names) + "\n")
    return folder


def write_deepfashion(root, notes="Anno_coarse"):
    """Four images to train, one to validate, and two to test; three attributes."""
    folder = root / "Category and Attribute Prediction Benchmark"
    rows = [("train", "1 -1 -1"), ("train", "1 1 0"), ("train", "-1 -1 1"), ("train", "-1 1 -1")]
    rows += [("val", "1 1 1"), ("test", "-1 1 1"), ("test", "1 -1 -1")]
    names = [f"img/Sheer_Blouse/img_{number:08d}.jpg" for number in range(len(rows))]
    lists = {
        f"{notes}/list_attr_cloth.txt": [
            "3",
            "attribute_name  attribute_type",
            "abstract chevron   1",
            "a-line  3",
            "art 1",
        ],
        f"{notes}/list_attr_img.txt": ["7", "image_name  attribute_labels"],
        "Eval/list_eval_partition.txt": ["7", "image_name  evaluation_status"],
    }
    for number, (name, (status, attributes)) in enumerate(zip(names, rows, strict=True)):
        picture(folder / "Img" / name, colour_of(number))
        lists[f"{notes}/list_attr_img.txt"].append(f"{name}   {attributes}")
        lists["Eval/list_eval_partition.txt"].append(f"{name}   {status}")
    for name, lines in lists.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("\n".join(lines) + "\n")
    return folder


def write_landmarks(root, places=("", "", "")):
    """Two landmarks to train; two in the index, with two queries, and one that is ignored, without images.

    The tables lie in these places.
    """
    folder = root / "google-landmark"
    images = {"train": ["00aa", "01ab", "02ba"], "index": ["10aa", "11ab", "12ba", "13bb"], "test": ["20aa", "21ab"]}
    for part, names in images.items():
        for number, name in enumerate(names):
            picture(folder / part / name[0] / name[1] / name[2] / f"{name}.jpg", colour_of(number))
    tables = {
        "train_clean.csv": "landmark_id,images\n5,00aa 01ab\n9,02ba\n",
        "index_image_to_landmark.csv": "id,landmark_id\n10aa,9\n11ab,9\n12ba,3\n13bb,4\n",
        "retrieval_solution_v2.1.csv": "id,images,Usage\n20aa,10aa 11ab,Public\n21ab,12ba,Private\n22,,Ignored\n",
    }
    for place, (name, text) in zip(places, tables.items(), strict=True):
        (folder / place).mkdir(exist_ok=True)
        (folder / place / name).write_text(text)
    return folder


WRITERS = {
    "cub200": write_cub,
    "cars196": write_cars_one_folder,
    "sop": write_sop,
    "inshop": write_inshop,
    "vehicleid": write_vehicleid,
    "market1501": write_market,
    "inaturalist2018": write_inaturalist,
    "deepfashion": write_deepfashion,
    "google_landmarks": write_landmarks,
}


def read(spec, data_dir):
    """A dataset whose files are there."""
    return load(spec, data_dir=str(data_dir))


def rewrite(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
